"""`barnabas pipeline mirror`: topics of one cluster in another, with configs and groups."""

from threading import Event
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Properties,
    check_topics,
    parse_pairs,
)
from barnabas.cli.show import counted, show_json, show_table
from barnabas.spark.pipeline_options import (
    Conf,
    Continuous,
    Every,
    Master,
    Remote,
    sink_options,
    source_options,
)
from barnabas.spark.session import EMBEDDED, SparkPlace, spark_session
from barnabas.spark.terminal import Progress, Rate, Show, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.cli.client import Cluster
    from barnabas.spark.mirror.mirror_copy import Mirror, Mirroring
    from barnabas.spark.mirror.mirror_groups import Translated
    from barnabas.spark.mirror.mirror_state import MirrorState

# A task that Spark repeats by itself would copy some records twice; we repeat what is missing.
_ONCE: Final = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
_ATTEMPTS: Final = 3


def mirror(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="The topics.", callback=check_topics)
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT[,...]", help="Brokers of the other cluster.")
    ],
    to_properties: Annotated[
        list[str] | None,
        typer.Option("--to-property", metavar="KEY=VALUE", help="As -X, for the other cluster."),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", help="Before the names that the topics get there.")
    ] = "",
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help="Translate this group's offsets only; repeatable."),
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups/--no-groups", help="Translate the offsets of groups.")
    ] = True,
    continuous: Continuous = False,
    every: Every = 10.0,
    step: Annotated[
        int, typer.Option("--step", min=1, metavar="RECORDS", help="At most so many at a time.")
    ] = 1_000_000,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Records deleted before they were copied: go on.")
    ] = False,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Copy topics to another cluster: records, partitions, configs, and where groups are.

    Keys, values, headers, timestamps and the order of each partition stay. The same command goes on
    where the last one ended, however that was, and copies nothing twice; what is done is noted in
    the topic __barnabas_mirror of the other cluster. Nobody else may write to the copies.

    \b
    Examples:
      barnabas pipeline mirror orders users --to other:9092
      barnabas pipeline mirror orders --to other:9092 --prefix eu. --continuous
    """
    from barnabas.cli.client import Cluster
    from barnabas.spark.mirror.mirror_copy import Mirror, Mirroring
    from barnabas.spark.mirror.mirror_state import MirrorState

    source, target = Cluster(bootstrap, properties), Cluster(to, to_properties)
    place = SparkPlace(master, remote, {**_ONCE, **parse_pairs(conf, "--conf")})
    wanted = Mirroring(
        {name: prefix + name for name in topics},
        source_options(bootstrap, properties),
        sink_options(source_options(to, to_properties), place),
        step,
        allow_gaps,
    )
    _refuse_itself(source, target, wanted)
    run = _Run(source, target, wanted, None if not groups else tuple(group or ()))
    state = MirrorState(target)
    copier = Mirror(source, target, state, wanted)
    run.prepare(copier)  # what is wrong is said before Spark starts
    with spark_session("barnabas mirror", place) as spark:
        try:
            with shown("mirroring") as show:
                run.catch_up(spark, copier, state, show)
                while continuous:
                    Event().wait(every)
                    run.prepare(copier)
                    run.catch_up(spark, copier, state, show)
        finally:
            run.summarize(json)


def _refuse_itself(source: "Cluster", target: "Cluster", wanted: "Mirroring") -> None:
    from barnabas.spark.mirror.mirror_copy import cluster_id

    same = [name for name, copy in wanted.topics.items() if name == copy]
    if same and cluster_id(source) == cluster_id(target):
        raise Misused(
            f"--to {target.bootstrap} is the same cluster, and {same[0]} would be copied to itself;"
            " name another cluster, or give the copies other names with --prefix"
        )


class _Run:
    """One run of the command, and what it has done so far."""

    def __init__(
        self,
        source: "Cluster",
        target: "Cluster",
        wanted: "Mirroring",
        groups: tuple[str, ...] | None,
    ) -> None:
        self._source = source
        self._target = target
        self._wanted = wanted
        self._groups = groups
        self._rate = Rate()
        self._records = 0
        self._notes: list[str] = []
        self._translated: dict[str, Translated] = {}

    def prepare(self, copier: "Mirror") -> None:
        """Let the topics be there, as they are in the source, if they can be a mirror's."""
        from barnabas.spark.mirror.mirror_topics import mirror_topic, shape_of

        shapes = {name: shape_of(self._source, name) for name in self._wanted.topics}
        copier.check()
        for name, copy in self._wanted.topics.items():
            self._notes += mirror_topic(self._target, copy, shapes[name])
        copier.begin()

    def catch_up(
        self, spark: "SparkSession", copier: "Mirror", state: "MirrorState", show: Show
    ) -> None:
        """Copy until nothing is new, then translate the groups."""
        from barnabas.spark.spark_errors import SparkFailed, unless_late

        attempts = 0
        while True:
            try:
                step = unless_late(lambda: copier.step(spark))
            except SparkFailed:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise
                continue
            if step is None:
                break
            attempts = 0
            self._records += step.records
            show(Progress(self._records, step.left))
        if self._groups is not None:
            self._translate(spark, copier, state, self._groups)

    def _translate(
        self, spark: "SparkSession", copier: "Mirror", state: "MirrorState", wanted: tuple[str, ...]
    ) -> None:
        from barnabas.cli.groups.groups_admin import GroupAdmin
        from barnabas.spark.mirror.mirror_groups import translate_groups

        for each in translate_groups(
            GroupAdmin(self._source),
            GroupAdmin(self._target),
            copier.lineages(),
            state,
            lambda *place: copier.count(spark, *place),
            wanted,
        ):
            before = self._translated.get(each.group)
            moved = each.partitions + (before.partitions if before else 0)
            self._translated[each.group] = each._replace(partitions=moved)

    def summarize(self, json: bool) -> None:
        """Say what was copied, and which groups were moved."""
        if json:
            show_json(
                {
                    "records": self._records,
                    "seconds": round(self._rate.seconds, 3),
                    "topics": dict(self._wanted.topics),
                    "changes": self._notes,
                    "groups": [each._asdict() for each in self._translated.values()],
                }
            )
            return
        for note in self._notes:
            print(note)
        if self._translated:
            rows = [list(each) for each in self._translated.values()]
            show_table(("group", "partitions moved", ""), rows)
        seconds, rate = self._rate.seconds, self._rate.overall(self._records)
        print(
            f"copied {counted(self._records, 'new record')} of"
            f" {counted(len(self._wanted.topics), 'topic')} in {seconds:.1f} s ({rate:,.0f}/s)"
        )
