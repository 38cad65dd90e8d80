"""The workflows of both forges, played on this machine: a pull request gets one comment."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.diff.forges import Forge, Runner, checkout, forge, git, shell

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "preview.yml"
PIPELINE = ROOT / ".gitlab-ci.yml"
STACK = "Pulumi.dev.yaml"
MODEL = Path("models/smollm2.yaml")
FORK_GUARD = (
    "github.event.pull_request.head.repo.full_name == github.repository"
    " && vars.SLIPWAY_PREVIEW || 'files'"
)
MARKER = "<!-- slipway-diff:dev -->"
# A preview and its policies run in environments of the cache, which has to have them.
in_environments = pytest.mark.binaries


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return document


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """This checkout as a repository of its own, and its commits: one without the environment, a
    base, a change, a mistake."""
    folder = tmp_path_factory.mktemp("origin")
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        # Without what a preview does not read: checking files out takes much of these tests' time.
        read = not {"tests", "docs", "bench"} & set(Path(name).parts)
        if read and os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    git(folder, "init", "--quiet")
    stack = (folder / STACK).read_text()
    (folder / STACK).unlink()
    commits = [commit(folder, "no environment")]
    (folder / STACK).write_text(stack)
    commits.append(commit(folder, "base"))
    for old, new in (("max_model_len: 2048", "max_model_len: 1024"), ("float32", "float33")):
        text = (folder / MODEL).read_text()
        assert old in text
        (folder / MODEL).write_text(text.replace(old, new))
        commits.append(commit(folder, new))
    return folder, commits


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def github() -> Iterator[Forge]:
    with forge("github") as state:
        yield state


@pytest.fixture
def gitlab() -> Iterator[Forge]:
    with forge("gitlab") as state:
        yield state


def previewed(
    workflow: dict[Any, Any], repository: Path, folder: Path, *, base: str, head: str
) -> Runner:
    """A runner that has done the first job for a push to the pull request."""
    folder.mkdir()
    (folder / "summary").touch()
    runner = Runner(
        repository=repository,
        folder=folder,
        context={
            "github.event.pull_request.base.sha": base,
            "github.event.pull_request.head.sha": head,
            "github.event.pull_request.number": "7",
            "github.token": "its-token",
            FORK_GUARD: "files",
            "matrix.environment": "dev",
        },
        variables={
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        },
    )
    runner.run_job("preview", workflow["jobs"]["preview"])
    return runner


def comment(workflow: dict[Any, Any], runner: Runner, state: Forge) -> None:
    """The second job, which runs even when the first failed."""
    runner.variables["GITHUB_API_URL"] = state.address
    shutil.rmtree(runner.folder / "comment", ignore_errors=True)
    runner.run_job("comment", workflow["jobs"]["comment"])


@pytest.fixture(scope="module")
def first_push(
    workflow: dict[Any, Any],
    repository: tuple[Path, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Runner:
    origin, (_, base, change, _) = repository
    folder = tmp_path_factory.mktemp("first") / "push"
    return previewed(workflow, origin, folder, base=base, head=change)


@in_environments
def test_github_gets_one_comment_that_later_pushes_update(
    workflow: dict[Any, Any],
    repository: tuple[Path, list[str]],
    first_push: Runner,
    tmp_path: Path,
    github: Forge,
) -> None:
    origin, (_, base, change, mistake) = repository
    for number in range(3):  # ours will not be on the first page
        github.add(f"a remark {number}", "ada")
    github.add(f"{MARKER}\nnot ours", "mallory")

    comment(workflow, first_push, github)
    succeeded = {"Preview": 0, "Summary": 0, "Verdict": 0, "Comment": 0}
    assert first_push.codes == succeeded, first_push.output
    (ours,) = github.ours()
    assert ours["body"].startswith(f"{MARKER}\n### disruptive: `dev`\n")
    assert change in ours["body"]
    assert "max_model_len: 1024" in ours["body"]
    assert "Policies: not run" not in ours["body"]
    assert "compared with the files of the base" in ours["body"]
    assert "### disruptive: `dev`" in first_push.summary()

    second = previewed(workflow, origin, tmp_path / "2", base=base, head=mistake)
    comment(workflow, second, github)
    assert second.codes == {**succeeded, "Verdict": 1}, second.output
    assert github.ours() == [ours]
    assert ours["body"].startswith(f"{MARKER}\n### failed: `dev`\n")
    assert "float33" in ours["body"]
    assert [write.partition(" ")[0] for write in github.writes] == ["POST", "PATCH"]
    assert github.comments[3]["body"] == f"{MARKER}\nnot ours"


@in_environments
def test_a_pull_request_of_a_fork_gets_the_report_and_the_reason(
    workflow: dict[Any, Any], first_push: Runner, github: Forge
) -> None:
    github.denied = 403
    comment(workflow, first_push, github)
    assert first_push.codes["Comment"] == 0, first_push.output
    assert github.comments == []
    assert "### disruptive: `dev`" in first_push.summary()
    assert "no comment: the token may not comment here (HTTP 403)" in first_push.summary()


@in_environments
def test_gitlab_gets_one_comment_that_later_pushes_update(
    repository: tuple[Path, list[str]], tmp_path: Path, gitlab: Forge
) -> None:
    origin, (_, base, change, _) = repository
    pipeline = yaml.safe_load(PIPELINE.read_text())
    place = tmp_path / "checkout"
    checkout(origin, change, place)
    variables = {
        **pipeline["variables"],
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "CI_COMMIT_SHA": change,
        "CI_API_V4_URL": gitlab.address,
        "CI_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_IID": "7",
        "COMMENT_TOKEN": "its-token",
    }
    for name in ("preview", "comment", "comment"):
        done = shell("\n".join(pipeline[name]["script"]), place, variables)
        assert done.returncode == 0, done.stdout + done.stderr
    (ours,) = gitlab.ours()
    assert ours["body"].startswith(f"{MARKER}\n### disruptive: `dev`\n")
    assert [write.partition(" ")[0] for write in gitlab.writes] == ["POST", "PUT"]

    del variables["COMMENT_TOKEN"]
    done = shell("\n".join(pipeline["comment"]["script"]), place, variables)
    assert (done.returncode, "no token for comments" in done.stdout) == (0, True)


def commented(origin: Path, place: Path, *, base: str, head: str) -> str:
    """The comment that .ci/preview writes in a checkout of `head`."""
    checkout(origin, head, place)
    done = shell(f".ci/preview dev {base} {head} out", place, {})
    assert done.returncode == 0, done.stdout + done.stderr
    return (place / "out" / "comment.md").read_text()


@in_environments
def test_a_change_that_adds_its_environment_creates_everything(
    repository: tuple[Path, list[str]], tmp_path: Path
) -> None:
    origin, (without, base, _, _) = repository
    comment = commented(origin, tmp_path / "checkout", base=without, head=base)
    assert comment.startswith(f"{MARKER}\n### safe: `dev`\n")
    assert " to create, 0 unchanged" in comment


@in_environments
def test_a_base_whose_own_preview_fails_is_said_to_be_the_reason(
    repository: tuple[Path, list[str]], tmp_path: Path
) -> None:
    origin, (_, _, change, mistake) = repository
    comment = commented(origin, tmp_path / "checkout", base=mistake, head=change)
    assert "### failed: `dev`" in comment
    assert "the preview of the base failed" in comment
    assert (tmp_path / "checkout" / "out" / "status").read_text() == "1\n"
    assert len(git(tmp_path / "checkout", "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    ("denied", "code", "said"), [(401, 0, "no comment"), (403, 0, "no comment"), (500, 1, "500")]
)
def test_only_a_refusal_is_forgiven(
    github: Forge, tmp_path: Path, denied: int, code: int, said: str
) -> None:
    (tmp_path / "comment.md").write_text(f"{MARKER}\ntext\n")
    github.denied = denied
    variables = {
        "GITHUB_API_URL": github.address,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": "its-token",
        "PULL_REQUEST": "7",
    }
    script = f"python3 '{ROOT}/.ci/post_comment.py' github comment.md"
    done = shell(script, tmp_path, variables)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True)


def test_a_text_without_the_marker_is_not_posted(tmp_path: Path) -> None:
    (tmp_path / "comment.md").write_text("anything\n")
    done = shell(f"python3 '{ROOT}/.ci/post_comment.py' github comment.md", tmp_path, {})
    assert done.returncode == 1
    assert "not a marker" in done.stderr


def test_the_code_of_a_pull_request_never_sees_a_token_that_writes(
    workflow: dict[Any, Any],
) -> None:
    # In YAML 1.1 the key `on` is the truth value.
    assert workflow[True] == {"pull_request": None}
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert jobs["preview"]["permissions"] == {"contents": "read"}
    assert jobs["comment"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert jobs["comment"]["steps"][0]["with"]["ref"].endswith("base.sha }}")
    for job in jobs.values():
        checkout_step = job["steps"][0]
        assert checkout_step["with"]["persist-credentials"] is False
    assert "token" not in str(jobs["preview"])
    assert "secrets" not in str(jobs)
    assert jobs["preview"]["env"]["SLIPWAY_PREVIEW"] == f"${{{{ {FORK_GUARD} }}}}"
    assert jobs["comment"]["if"].startswith("always()")


def test_actions_are_pinned_and_nothing_applies_a_change() -> None:
    files = (WORKFLOW, PIPELINE, ROOT / ".ci" / "preview", ROOT / ".ci" / "post_comment.py")
    used = re.findall(r"uses: (\S+)", WORKFLOW.read_text())
    assert len(used) == 5
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action) for action in used)
    for file in files:
        assert not re.search(r"(slipway|pulumi) (up|down|destroy|refresh|start)", file.read_text())
