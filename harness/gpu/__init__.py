"""What both sides of a worker need of a real GPU: the driver, and memory that two processes see."""
