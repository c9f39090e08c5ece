"""Pipelines: projects and archives below given directories, Spark queries by their groups, and
runs that this console started."""

import json
import re
from pathlib import Path
from typing import Any, Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.pipeline_run import PipelineRun
from barnabas.console.web.actions import Form, Plan, WrongInput, action, check_operator
from barnabas.console.web.page import Context, Page, live_page

_MANIFEST: Final = "_manifest.json"
# Kafka's rule, but for a dash or only dots in front: the name becomes an argument and a directory.
_TOPIC: Final = re.compile(r"(?!-|\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def find_projects(folders: tuple[Path, ...]) -> list[dict[str, Any]]:
    from barnabas.spark.project.project_files import find_all

    found: list[dict[str, Any]] = []
    for folder in folders:
        if not folder.is_dir():
            continue
        for each in find_all(folder):
            if isinstance(each, CommandFailed):
                found.append({"name": "invalid", "path": "", "error": str(each)})
            else:
                found.append({"name": each.name, "path": str(each.folder), "error": ""})
    return found


def find_archives(folders: tuple[Path, ...]) -> list[dict[str, Any]]:
    """Archives by their manifests: topics, files, records, bytes."""
    found: list[dict[str, Any]] = []
    for path in sorted(p for root in folders for p in root.glob(f"**/{_MANIFEST}")):
        try:
            manifest = json.loads(path.read_text())
        except (OSError, ValueError) as failure:
            found.append({"path": str(path.parent), "error": str(failure)})
            continue
        files = manifest.get("files", [])
        parts = [part for file in files for part in file.get("parts", [])]
        found.append(
            {
                "path": str(path.parent),
                "error": "",
                "topics": sorted({file.get("topic", "") for file in files}),
                "files": len(files),
                "records": sum(part.get("records", 0) for part in parts),
                "bytes": sum(file.get("bytes", 0) for file in files),
            }
        )
    return found


async def gather_pipelines(page: Page) -> Context:
    folders = page.state.options.pipelines
    projects = await page.state.offload(lambda: find_projects(folders))
    archives = await page.state.offload(lambda: find_archives(folders))
    try:
        groups = (await page.cluster.lags.get()).groups.values()
        queries = [each for each in groups if each.group.is_spark]
    except ClusterFailed:
        queries = []
    return {
        "folders": [str(folder) for folder in folders],
        "projects": projects,
        "archives": archives,
        "queries": queries,
        "rates": {each.group.name: page.cluster.lags.rate(each.group.name) for each in queries},
        "runs": page.state.pipeline_runs,
    }


async def decide_start(page: Page, form: Form) -> Plan:
    await check_operator(page)
    folders = page.state.options.pipelines
    if not folders:
        raise WrongInput("Start the console with --pipelines DIR to run pipelines from here")
    kind = form.get("kind", "run")
    name, command = _command(page, kind, form)
    running = page.state.pipeline_runs.get(name)
    if running is not None and running.state == "running":
        raise WrongInput(f"{name} runs already")

    async def carry_out() -> str:
        properties = page.cluster.properties
        page.state.pipeline_runs[name] = await PipelineRun.start(name, command, properties)
        return f"{name} was started."

    effects = [f"This machine runs: barnabas {' '.join(command)}", "It runs until it is stopped."]
    return Plan(f"Start {name}", effects, "Start", carry_out, "pipelines")


def _command(page: Page, kind: str, form: Form) -> tuple[str, list[str]]:
    bootstrap = page.state.options.bootstrap
    if kind == "archive":
        topic = form.get("topic", "").strip()
        if not _TOPIC.fullmatch(topic):
            raise WrongInput("An archive needs the name of a topic")
        to = page.state.options.pipelines[0] / "archives" / topic
        options = ["--to", str(to), "--continuous", "-b", bootstrap]
        return f"archive of {topic}", ["pipeline", "archive", topic, *options]
    path = form.get("path", "")
    if path not in [each["path"] for each in find_projects(page.state.options.pipelines)]:
        raise WrongInput(f"{path} is not a project below the console's directories")
    return f"project {Path(path).name}", ["pipeline", "run", path, "--continuous"]


async def decide_stop(page: Page, form: Form) -> Plan:
    await check_operator(page)
    run = page.state.pipeline_runs.get(form.get("name", ""))
    if run is None:
        raise WrongInput("This console started no such pipeline")

    async def carry_out() -> str:
        run.stop()
        return f"{run.name} is stopping."

    effects = [f"{run.name} ends after its current step. It can be started again."]
    return Plan(f"Stop {run.name}", effects, "Stop", carry_out, "pipelines")


ROUTES: Final = (
    live_page("/pipelines", "pipelines.html", gather_pipelines, 3.0),
    action("/pipelines/start", "start pipeline", decide_start),
    action("/pipelines/stop", "stop pipeline", decide_stop),
)
