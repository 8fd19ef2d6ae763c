// The CPU build of torch ships the headers that include this file, but not the file.
#pragma once
