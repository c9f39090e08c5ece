"""Pipelines: projects and archives below given directories, Spark queries by their groups,
mirrors by their state, and runs that this console started."""

import re
import shlex
from pathlib import Path
from typing import Final

from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.pipeline_files import archive_lags, find_archives, find_projects
from barnabas.console.cluster.pipeline_run import PipelineRun
from barnabas.console.watch.group_lags import GroupLag
from barnabas.console.watch.mirrors import MirrorRow
from barnabas.console.web.actions import Form, Plan, WrongInput, action, check_operator, is_operator
from barnabas.console.web.page import Context, Page, live_page

# Kafka's rule, but for a dash or only dots in front: the name becomes an argument and a directory.
_TOPIC: Final = re.compile(r"(?!-|\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,200}")
_BROKERS: Final = re.compile(
    r"[\w.\[\]][\w.:\[\]-]*:\d{1,5}(,[\w.\[\]][\w.:\[\]-]*:\d{1,5})*", re.ASCII
)


async def gather_pipelines(page: Page) -> Context:
    cluster, is_shown, failure = page.cluster, True, ""
    try:
        is_shown = await is_operator(page)
    except ClusterFailed as failed:
        is_shown, failure = False, str(failed)
    folders = page.state.options.pipelines if is_shown else ()
    projects = await page.state.offload(lambda: find_projects(folders))
    archives = await page.state.offload(lambda: find_archives(folders))
    lags: dict[str, int | None] = {}
    queries: list[GroupLag] = []
    mirrors: list[MirrorRow] = []
    try:
        groups = (await cluster.lags.get()).groups.values()
        queries = [each for each in groups if each.group.is_spark]
        mirrors = await cluster.mirrors.get()
        lags = await archive_lags(cluster.client, await cluster.index.get(), archives)
    except ClusterFailed as failed:  # what is on this machine is shown without the cluster
        failure = str(failed)
    now_ms, rates = page.state.clock.now_ms(), cluster.progress_rates
    return {
        "folders": [str(folder) for folder in folders],
        "projects": projects,
        "archives": archives,
        "archive_lags": lags,
        "mirrors": mirrors,
        "mirror_rates": [
            rates.observe(f"mirror {' '.join(each.topic)}", now_ms, each.copied) for each in mirrors
        ],
        "archive_rates": [
            rates.observe(f"archive {each.path}", now_ms, sum(each.ends.values()))
            for each in archives
        ],
        "queries": queries,
        "rates": {each.group.name: cluster.lags.rate(each.group.name) for each in queries},
        "cluster_failure": failure,
        "runs": page.state.pipeline_runs if is_shown else {},
        "is_shown": is_shown,
    }


async def plan_start(page: Page, form: Form) -> Plan:
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

    effects = [f"This machine runs: barnabas {shlex.join(command)}", "It runs until it is stopped."]
    return Plan(f"Start {name}", effects, "Start", carry_out, "pipelines")


def _command(page: Page, kind: str, form: Form) -> tuple[str, list[str]]:
    """The name of a pipeline, and the command that runs it. Raises WrongInput."""
    bootstrap, folder = page.state.options.bootstrap, page.state.options.pipelines[0]
    match kind:
        case "archive":
            topic = form.get("topic", "").strip()
            if not _TOPIC.fullmatch(topic):
                raise WrongInput("An archive needs the name of a topic")
            options = ["--to", str(folder / "archives" / topic), "--continuous", "-b", bootstrap]
            return f"archive of {topic}", ["pipeline", "archive", topic, *options]
        case "mirror":
            return _mirror(bootstrap, form)
    path = form.get("path", "")
    if path not in [each["path"] for each in find_projects(page.state.options.pipelines)]:
        raise WrongInput(f"{path} is not a project below the console's directories")
    return f"project {Path(path).name}", ["pipeline", "run", path, "--continuous"]


def _mirror(bootstrap: str, form: Form) -> tuple[str, list[str]]:
    topics = form.get("topics", "").replace(",", " ").split()
    if not topics or not all(map(_TOPIC.fullmatch, topics)):
        raise WrongInput("A mirror needs the names of topics")
    to, prefix = form.get("to", "").strip(), form.get("prefix", "").strip()
    if not _BROKERS.fullmatch(to):
        raise WrongInput("A mirror needs brokers of the target cluster, such as other:9092")
    if not _PREFIX.fullmatch(prefix):
        raise WrongInput(f"“{prefix}” cannot be the prefix of topics")
    options = ["--to", to, *([f"--prefix={prefix}"] if prefix else []), "--continuous"]
    command = ["pipeline", "mirror", *topics, *options, "-b", bootstrap]
    return f"mirror of {', '.join(topics)} to {to}", command


async def plan_stop(page: Page, form: Form) -> Plan:
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
    action("/pipelines/start", "start pipeline", plan_start),
    action("/pipelines/stop", "stop pipeline", plan_stop),
)
