"""Files that other programs read: workflows, the action, pre-commit's hooks, the citation."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import __version__
from tests.support import ROOT, harness, run

ACTION = ROOT / "action.yml"
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
MATRIX = GITHUB / "workflows" / "test.yml"
RELEASE = GITHUB / "workflows" / "release.yml"

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")
_INPUT = re.compile(r"\binputs\.(\w+)")


def parsed(path: Path) -> Any:
    """Return the content of a YAML file as Python objects."""
    return yaml.safe_load(path.read_text())


def jobs(workflow: Path) -> dict[str, dict[str, Any]]:
    """Return the jobs of a GitHub workflow, by name."""
    found: dict[str, dict[str, Any]] = parsed(workflow)["jobs"]
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the steps of action.yml, or of each job of a GitHub workflow."""
    if path == ACTION:
        yield from parsed(path)["runs"]["steps"]
    else:
        for job in jobs(path).values():
            yield from job["steps"]


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile."""
    _, _, rest = (ROOT / "Makefile").read_text().partition(f"\n{target}:")
    _, *lines = rest.partition("\n\n")[0].splitlines()
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in lines]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_job_may_read_only_and_ends(workflow: Path) -> None:
    """Each workflow parses, has read-only permissions, and gives each job a time limit."""
    assert parsed(workflow)["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 120 for job in jobs(workflow).values())


@pytest.mark.parametrize("name", ["bug.md", "wrong_verdict.md"])
def test_issue_template_has_its_heading(name: str) -> None:
    """An issue template begins with its name and description.

    GitHub ignores a template without them.
    """
    _, heading, text = (GITHUB / "ISSUE_TEMPLATE" / name).read_text().split("---\n", 2)
    assert yaml.safe_load(heading).keys() == {"name", "about"}
    assert text.strip()


def test_workflows_call_targets_that_exist() -> None:
    """Each make target that a workflow calls exists in the Makefile."""
    scripts = [step.get("run", "") for path in WORKFLOWS for step in steps(path)]
    called = set(re.findall(r"\bmake ([a-z-]+)", "\n".join(scripts)))
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"test", "test-all", "leaderboard"} <= called
    assert called <= there


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_script_has_no_expression_in_it(path: Path) -> None:
    """A workflow's shell script gets branch names and inputs as variables, never in its text."""
    for step in steps(path):
        assert "${{" not in step.get("run", "")


def test_actions_are_pinned_to_one_version() -> None:
    """Each third-party action has an exact version, which is the same in every file."""
    used = {step["uses"] for path in (ACTION, *WORKFLOWS) for step in steps(path) if "uses" in step}
    used.discard("./")
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", name) for name in used)
    assert len({name.partition("@")[0] for name in used}) == len(used)


def test_hooks_run_what_lint_runs() -> None:
    """The hooks of pre-commit run the commands of `make lint`, on all files."""
    (local,) = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == recipe("lint")
    assert not any(hook["pass_filenames"] for hook in local["hooks"])


def test_action_uses_each_of_its_inputs() -> None:
    """The inputs that the action's steps read are the inputs that it declares."""
    assert set(_INPUT.findall(ACTION.read_text())) == parsed(ACTION)["inputs"].keys()


def test_action_imports_nothing_of_the_checkout() -> None:
    """The action runs Python with -I, because a pull request may have a module such as venv.py.

    Python would import that module outside any sandbox.
    """
    scripts = [step.get("run", "") for step in steps(ACTION)]
    assert re.findall(r"\bpython3? (\S+)", "\n".join(scripts)) == ["-I"]


@pytest.mark.parametrize("name", ["gate.yml", "gate-gpu.yml"])
def test_workflow_gives_inputs_that_the_action_has(name: str) -> None:
    """A gate workflow passes only inputs that the action declares; GitHub only warns of others."""
    (step,) = (each for each in steps(GITHUB / "workflows" / name) if each["uses"] == "./")
    assert step["with"].keys() <= parsed(ACTION)["inputs"].keys()


def test_matrix_has_the_oldest_that_is_promised() -> None:
    """The test workflow has the oldest supported Python and torch.

    Each version of torch is tested with and without a sandbox.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = re.match(r">=([\d.]+)", project["requires-python"])
    torch = re.search(r"torch>=([\d.]+)", " ".join(project["dependencies"]))
    assert python
    assert torch
    matrix = jobs(MATRIX)["quick"]["strategy"]["matrix"]["include"]
    assert python[1] in {entry["python"] for entry in matrix}
    assert {(entry["torch"], entry["sandbox"]) for entry in matrix} == {
        (release, sandbox)
        for release in (f"torch=={torch[1]}.*", "torch")
        for sandbox in ("bubblewrap", "none")
    }


def test_only_a_maintainer_lets_a_release_be_published() -> None:
    """Only one job may publish a release; this job runs after the job `check`.

    A maintainer must have set the repository's variable PUBLISH, or the publishing job is skipped.
    """
    (publishing,) = (
        job for path in WORKFLOWS for job in jobs(path).values() if "permissions" in job
    )
    assert publishing == jobs(RELEASE)["publish"]
    assert publishing["permissions"] == {"id-token": "write"}
    assert publishing["if"] == "${{ vars.PUBLISH == 'true' }}"
    assert publishing["needs"] == "check"


def test_release_is_checked_by_commands_that_exist(tmp_path: Path) -> None:
    """`harness` accepts the arguments that the release workflow gives it."""
    scripts = [step.get("run", "") for step in steps(RELEASE)]
    commands = re.findall(r"bin/harness (.+)", "\n".join(scripts))
    assert len(commands) == 2
    for command in commands:
        assert_taken(shlex.split(command), tmp_path)


def test_citation_is_of_this_version() -> None:
    """CITATION.cff has the name, version and licence of the package."""
    citation = parsed(ROOT / "CITATION.cff")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == __version__
    assert citation["license"] == project["license"]
    assert citation["title"] == project["name"]


# The action's scripts, run as a GitHub runner runs them.


@dataclass(frozen=True)
class Repository:
    """A git repository of kernels with three commits; `origin/main` is the first.

    Attributes:
        folder: The repository's folder.
        first: Hash of the first commit.
        second: Hash of the second commit.
    """

    folder: Path
    first: str
    second: str

    def reference_at(self, path: str) -> str:
        """Return the text of the file problem.py in a folder of the repository.

        The text is the name of the commit whose files the folder holds: `first`, `second` or
        `third`.
        """
        return (self.folder / path / "problem.py").read_text()


@dataclass(frozen=True)
class Runner:
    """The environment in which a GitHub runner runs the action's scripts.

    Attributes:
        repository: The repository that was checked out.
        temporary: The job's folder for temporary files, RUNNER_TEMP.
        context: The value of each `${{ }}` expression.
    """

    repository: Repository
    temporary: Path
    context: Mapping[str, str]

    def outputs(self, step: str) -> dict[str, str]:
        """Run the script of the action's step with this id, and return the step's outputs."""
        (found,) = (each for each in steps(ACTION) if each.get("id") == step)
        variables = {
            name: _EXPRESSION.sub(lambda match: self.context[match[1]], value)
            for name, value in found["env"].items()
        }
        written = self.temporary / "output"
        written.write_text("")
        variables |= {"RUNNER_TEMP": str(self.temporary), "GITHUB_OUTPUT": str(written)}
        bash = ["bash", "-e", "-o", "pipefail", "-c", found["run"]]
        done = run(bash, self.repository.folder, **variables)
        assert done.status == 0, done.err
        return dict(line.split("=", 1) for line in written.read_text().splitlines())


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a repository with three commits, each of which writes its name to the reference."""
    folder = tmp_path_factory.mktemp("repository")

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
        done = run(["git", *identity, *arguments], folder)
        assert done.status == 0, done.err
        return done.out.strip()

    git("init", "--quiet")
    (folder / "problems").mkdir()
    commits = []
    for name in ("first", "second", "third"):
        (folder / "problems" / "problem.py").write_text(name)
        git("add", ".")
        git("commit", "--quiet", "--message", name)
        commits.append(git("rev-parse", "HEAD"))
    git("update-ref", "refs/remotes/origin/main", commits[0])
    return Repository(folder, *commits[:2])


def runner(repository: Repository, temporary: Path, **event: str) -> Runner:
    """Return a runner for a GitHub event.

    Args:
        repository: The repository that was checked out.
        temporary: The job's folder for temporary files.
        **event: Commits of the event. `pull` is the base of a pull request, `before` is the commit
            before a push, and `asked` is the base that the workflow names.
    """
    context = {
        "inputs.submissions": "my kernels",
        "inputs.reference": "problems",
        "inputs.base": event.get("asked", ""),
        "inputs.device": "auto",
        "github.event.pull_request.base.sha": event.get("pull", ""),
        "github.event.before": event.get("before", ""),
        "github.event.repository.default_branch": "main",
    }
    return Runner(repository, temporary, context)


def test_pull_request_is_compared_with_its_base(repository: Repository, tmp_path: Path) -> None:
    """A pull request is compared with its base, and checked by the base's references.

    So a pull request that changes a reference does not change its own check.
    """
    told = {"pull": repository.first, "before": repository.second}
    base = runner(repository, tmp_path, **told).outputs("base")
    assert base["revision"] == repository.first
    assert repository.reference_at(base["reference"]) == "first"


def test_push_is_compared_with_what_it_replaced(repository: Repository, tmp_path: Path) -> None:
    """A push is compared with the commit before it, and checked by its own references."""
    base = runner(repository, tmp_path, before=repository.second).outputs("base")
    assert base["revision"] == repository.second
    assert repository.reference_at(base["reference"]) == "third"


@pytest.mark.parametrize("before", ["", "0" * 40], ids=["by hand", "first push"])
def test_without_a_base_the_default_branch_is_taken(
    before: str, repository: Repository, tmp_path: Path
) -> None:
    """The first push of a branch, and a run by hand, are compared with the default branch.

    A first push replaces nothing, and a run by hand need not name a base.
    """
    base = runner(repository, tmp_path, before=before).outputs("base")
    assert base["revision"] == "origin/main"


def test_base_that_is_asked_for_is_taken(repository: Repository, tmp_path: Path) -> None:
    """A pull request is compared with the base that a workflow names, if it names one.

    The references are still those of the pull request's base.
    """
    told = {"asked": "HEAD^", "pull": repository.first}
    base = runner(repository, tmp_path, **told).outputs("base")
    assert base["revision"] == "HEAD^"
    assert repository.reference_at(base["reference"]) == "first"


@pytest.mark.parametrize("command", ["gate", "check"])
def test_action_calls_the_program_as_it_wants(
    command: str, repository: Repository, tmp_path: Path
) -> None:
    """`harness` accepts the action's options, which include `--untrusted`.

    A name with a space stays one argument.
    """
    program = tmp_path / "harness" / "bin" / "harness"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$RUNNER_TEMP/arguments"\n')
    program.chmod(0o755)
    here = runner(repository, tmp_path)
    outputs = {"steps.base.outputs.revision": "old", "steps.base.outputs.reference": "problems"}
    Runner(repository, tmp_path, {**here.context, **outputs}).outputs(command)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[:2] == [command, "my kernels"]
    assert "--untrusted" in arguments
    assert_taken(arguments, tmp_path)


def assert_taken(arguments: list[str], folder: Path) -> None:
    """Check that `harness` accepts these arguments; an unknown option keeps it from running."""
    done = harness(*arguments, "--nothing-such", folder=folder)
    assert done.status == 2
    assert done.err.endswith("unrecognized arguments: --nothing-such\n")
