"""The sizes with which all jobs together are fastest, and what no sizes could beat.

Two kinds of programs (Mohan et al., Synergy, OSDI 2022, section 4.1). The first takes all servers
of a pool for one; its value is the *bound*. The second has every server by itself, with the GPUs of
each job where they are, and says what jobs get. Servers that share gangs are solved together, and
only those on which anything happened.

The search of the second begins at what `tune` gives, and that stays where nothing faster is found.
What a program leaves over is handed out as by `tune`.

Deviations: the public simulator gives nobody what the second program finds, and its amounts are
points of the matrix. Here amounts between points count as well: the first program may mix points,
which no sizes can beat, and the second may choose whole CPUs between them.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from shunter.core.sizing.mechanism import (
    NO_RESOURCES,
    ROUNDING,
    Answer,
    Choice,
    Mechanism,
    Option,
    Program,
    Solver,
)
from shunter.core.sizing.sized_plans import Servers, SizingInput
from shunter.events import JobId, NodeName, Resources, Size, SizesSet, fact

_DIGITS = 9


def solve_sizes(given: SizingInput) -> SizesSet | None:
    """Return the sizes of jobs that start, and of those that get others.

    None: nobody solves programs, or nothing happened.

    Raises:
        PlanError: what the solver needs is not installed.
    """
    solver = given.guarantees.sizing.solver
    if solver is None or not (given.starts or given.book.unsized):
        return None
    servers = Servers(given)
    servers.tune()
    return _Optimum(given, servers).solved(solver)


def speed_of_sizes(given: SizingInput, sizes: Iterable[Size]) -> float | None:
    """Return the `speed` of a `SizesSet` with these sizes, exactly, without solving.

    None: no programs say sizes, or nothing happened.
    """
    is_solved = given.guarantees.sizing.mechanism is Mechanism.opt
    if not is_solved or not (given.starts or given.book.unsized):
        return None
    servers = Servers(given)
    servers.take({size.job_id: Resources(0, size.cpus_milli, size.memory_mb) for size in sizes})
    return _Optimum(given, servers).speed()


@fact
class _Group:
    """Servers that share gangs, and the jobs on them that can be sized, in order."""

    nodes: tuple[NodeName, ...]
    jobs: tuple[JobId, ...]


class _Optimum:
    """The programs of one round, stated from what `tune` gives and answered."""

    def __init__(self, given: SizingInput, servers: Servers) -> None:
        self._guarantees, self._book = given.guarantees, given.book
        self._view, self._rank = given.view, given.rank
        self._servers = servers

    def solved(self, solver: Solver) -> SizesSet | None:
        """Return the answer, with its bound; None: there is nobody to size."""
        groups, servers = self._groups(), self._servers
        if not groups and not servers.starts:
            return None
        placed = [self._placed(group) for group in groups]
        pooled, fixed = self._pooled()
        answers = solver.solve([*placed, *pooled])
        gaps, unsolved = [], 0
        for group, program, answer in zip(groups, placed, answers, strict=False):
            if answer.chosen and _fits(program, answer):
                self._take(group, program, answer)
                gaps.append(answer.gap)
            else:
                gaps.append(min(answer.bound, _most(program)) - self._together(group.jobs))
                unsolved += len(group.jobs)
        bounds = [
            min(answer.bound, _most(program))
            for program, answer in zip(pooled, answers[len(placed) :], strict=True)
        ]
        sized = [job_id for job_id in servers.starts if self._view.jobs[job_id].spec.gpus]
        said = f"nothing was found for {unsolved} jobs, which have what tune gives them"
        return SizesSet(
            self._view.now_us,
            tuple([self._size(job_id) for job_id in (*sized, *servers.changed())]),
            self.speed(),
            round(fsum([*bounds, fixed]), _DIGITS),
            round(fsum(gaps), _DIGITS),
            said if unsolved else "ok",
        )

    def speed(self) -> float:
        """Return the sum of the speeds of all jobs with GPUs that run after this round."""
        return round(self._together(self._running()), _DIGITS)

    def _size(self, job_id: JobId) -> Size:
        has = self._servers.sized(job_id).has
        return Size(job_id, has.cpus_milli, has.memory_mb)

    def _speed(self, job_id: JobId) -> float:
        spec = self._view.jobs[job_id].spec
        return self._guarantees.sizing.speed(spec, self._servers.sized(job_id).has)

    def _together(self, jobs: Iterable[JobId]) -> float:
        """Return the sum of the speeds of some jobs."""
        return fsum([self._speed(job_id) for job_id in jobs])

    def _running(self) -> list[JobId]:
        """Return the jobs with GPUs that run after this round."""
        victims, jobs = self._servers.victims, self._view.jobs
        stay = [
            job_id
            for job_id, holding in self._book.holdings.items()
            if not holding.leaves and job_id not in victims
        ]
        return [job_id for job_id in (*stay, *self._servers.starts) if jobs[job_id].spec.gpus]

    def _groups(self) -> list[_Group]:
        """Return the servers on which anything happened, and those linked with them."""
        servers, known = self._servers, dict[NodeName, None]()
        groups = []
        for first in servers.looked_at():
            if first in known:
                continue
            known[first] = None
            nodes, jobs = [first], dict[JobId, None]()
            for node in nodes:  # it grows meanwhile
                for sized in servers.sizable(node):
                    if sized.job_id in jobs:
                        continue
                    jobs[sized.job_id] = None
                    others = [share.node for share in sized.shares]
                    nodes += [other for other in others if other not in known]
                    known.update(dict.fromkeys(others))
            if jobs:
                groups.append(_Group(tuple(nodes), tuple(sorted(jobs, key=self._rank))))
        return groups

    def _placed(self, group: _Group) -> Program:
        """Return the program of servers by themselves."""
        places = {node: place for place, node in enumerate(group.nodes)}
        choices = [self._choice(job_id, places) for job_id in group.jobs]
        room = [self._room(node) for node in group.nodes]
        return Program(tuple(choices), tuple(room), is_whole=True)

    def _choice(self, job_id: JobId, places: Mapping[NodeName, int]) -> Choice:
        """Return the sizes of a job: with what it has, and with what `tune` gives."""
        servers, sizing = self._servers, self._guarantees.sizing
        job, sized = self._view.jobs[job_id], servers.sized(job_id)
        options = self._guarantees.options(job, self._guarantees.pool_of(sized.shares))
        assert options is not None, "jobs of unknown models are of one size"
        found = {option.per_gpu: option for option in options.cells}
        tuned, had = sized.has, sized.before
        sizes = [tuned] if job_id in servers.starts else [tuned, had]
        for size in sizes:
            speed = sizing.speed(job.spec, size)
            enough = speed >= options.guaranteed - ROUNDING
            if size is tuned or (enough and options.floor.fit_beside(size)):
                found.setdefault(size, Option(size, speed))
        places_of = {size: place for place, size in enumerate(found)}
        return Choice(
            tuple(found.values()),
            tuple([(places[share.node], share.gpus) for share in sized.shares]),
            liked=places_of.get(had, places_of[tuned]),
            known=places_of[tuned],
        )

    def _room(self, node: NodeName) -> Resources:
        """Return what the jobs on a server that can be of other sizes may have together."""
        left = self._servers.room(node)
        room = Resources(0, max(0, left.cpus_milli), max(0, left.memory_mb))
        for sized in self._servers.sizable(node):
            gpus = sum(share.gpus for share in sized.shares if share.node == node)
            room += sized.has.times(gpus)
        return room

    def _pooled(self) -> tuple[list[Program], float]:
        """Return the program of each pool taken for one server, and a rest of speed.

        That is the speed of jobs that are of one size whatever happens.
        """
        alike: dict[str, dict[object, list[JobId]]] = {}
        fixed = []
        for job_id in self._running():
            job, sized = self._view.jobs[job_id], self._servers.sized(job_id)
            if job.is_of_one_size or sized.best is None:
                fixed.append(self._speed(job_id))
                continue
            pool = self._guarantees.pool_of(sized.shares)
            key = self._guarantees.key(job, pool)
            alike.setdefault(pool, {}).setdefault(key, []).append(job_id)
        programs = []
        for pool, kinds in alike.items():
            choices = [self._kind(jobs, pool) for jobs in kinds.values()]
            programs.append(Program(tuple(choices), (self._room_of(pool),), is_whole=False))
        return programs, fsum(fixed)

    def _kind(self, jobs: Sequence[JobId], pool: str) -> Choice:
        """Return the sizes of some jobs of a pool that are alike, wherever they are."""
        job = self._view.jobs[jobs[0]]
        options = self._guarantees.options(job, pool)
        assert options is not None, "jobs of unknown models are of one size"
        gpus = ((0, job.spec.gpus),)
        return Choice(options.hull, gpus, count=len(jobs))

    def _room_of(self, pool: str) -> Resources:
        """Return what the jobs of a pool that can be of other sizes may have together."""
        room = NO_RESOURCES
        for server in self._view.pools[pool].servers:
            if server.is_up or server.name in self._book.on:
                room += self._room(server.name)
        return room

    def _take(self, group: _Group, program: Program, answer: Answer) -> None:
        """Give jobs what a program found and what it left over, if they are faster so."""
        servers, before = self._servers, self._together(group.jobs)
        sized_jobs = [servers.sized(job_id) for job_id in group.jobs]
        tuned = [sized.has for sized in sized_jobs]
        for sized, choice, option in zip(sized_jobs, program.choices, answer.chosen, strict=True):
            servers.set(sized, choice.options[option].per_gpu)
        for sized in sized_jobs:
            servers.grow(sized)
        if self._together(group.jobs) <= before + ROUNDING:
            for sized, size in zip(sized_jobs, tuned, strict=True):
                servers.set(sized, size)


def _fits(program: Program, answer: Answer) -> bool:
    """Say whether all servers have what was chosen; solvers count in floats."""
    used = [NO_RESOURCES] * len(program.room)
    for choice, option in zip(program.choices, answer.chosen, strict=True):
        for place, gpus in choice.gpus:
            used[place] += choice.options[option].per_gpu.times(gpus)
    return all(taken.fit_beside(room) for taken, room in zip(used, program.room, strict=True))


def _most(program: Program) -> float:
    """Return the sum of speeds if every job could have all."""
    return fsum(
        choice.count * max([option.speed for option in choice.options])
        for choice in program.choices
    )
