"""What somebody may try: each is refused, with the sentence that says what is wrong."""

import json
import lzma
import os
import shutil
from dataclasses import replace

import pytest

from memplace_env.errors import AgentError, LeaderboardError, MemPlaceError
from memplace_env.files import alone
from memplace_env.leaderboard import folder as files
from memplace_env.leaderboard import running
from memplace_env.leaderboard.board import Board
from memplace_env.leaderboard.checks import check_spending, check_unique
from memplace_env.leaderboard.entry import Point
from memplace_env.leaderboard.folder import META, read_entries, to_line, write_entries
from memplace_env.leaderboard.meta_file import read_meta, write_meta
from memplace_env.leaderboard.suite import load_suite
from memplace_env.leaderboard.verifying import rerun, verify

SUITE = load_suite("quick-v1")
FIRST, SECOND = list(SUITE.instances)[:2]


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A submission with five seeds, as it is made."""
    out = tmp_path_factory.mktemp("submissions") / "honest"
    running.run(running.describe(SUITE, SUITE.track("search"), "local-search", {}, ["10"]), out)
    return out


@pytest.fixture
def folder(honest, tmp_path):
    """A copy to tamper with."""
    return shutil.copytree(honest, tmp_path / "copy")


def plans(folder, env_id=FIRST):
    return folder / "plans" / f"{env_id}.jsonl.xz"


def change(folder, tamper, env_id=FIRST):
    """Write one environment's runs anew, as `tamper` makes them of what they are."""
    write_entries(plans(folder, env_id), tamper(list(read_entries(plans(folder, env_id)))))


def change_first(folder, **fields):
    change(folder, lambda entries: [replace(entries[0], **fields), *entries[1:]])


def change_meta(folder, **fields):
    write_meta(folder / META, replace(read_meta(folder / META), **fields))


def refused(folder, *parts):
    with pytest.raises(LeaderboardError) as error:
        verify(folder)
    message = str(error.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    return message


def test_an_honest_one_is_accepted(honest):
    submission = verify(honest)
    assert len(submission.entries) == 4 * 5
    rerun(honest, submission, submission.entries[7])


def test_writing_and_reading_change_nothing(folder):
    before = plans(folder).read_bytes()
    change(folder, list)
    assert plans(folder).read_bytes() == before
    change_meta(folder)
    assert read_meta(folder / META) == verify(folder).meta


def test_a_plan_that_cannot_run(folder):
    def shifted(entries):
        plan = entries[0].plan
        blocks = plan.allocations.copy()
        blocks[:, 2] = 0  # all at one address
        return [replace(entries[0], plan=replace(plan, allocations=blocks)), *entries[1:]]

    change(folder, shifted)
    refused(folder, FIRST, "cannot run")


def test_the_plan_of_another_program(folder):
    other = next(read_entries(plans(folder, SECOND)))
    change_first(folder, plan=other.plan)
    refused(folder, FIRST, "cannot run", "made for")


def test_a_latency_that_was_edited(folder):
    def faster(entries):
        first = entries[0]
        less = first.latency_ps - 1
        curve = (*first.curve[:-1], first.curve[-1]._replace(latency_ps=less))
        return [replace(first, latency_ps=less, curve=curve), *entries[1:]]

    change(folder, faster)
    refused(folder, FIRST, "replays in")


def test_a_curve_that_ends_elsewhere(folder):
    change_first(folder, latency_ps=1)
    refused(folder, FIRST, "curve does not end with the latency")


def test_a_missing_seed(folder):
    change(folder, lambda entries: entries[:-1])
    refused(folder, FIRST, "seed 4 is missing")


def test_seeds_that_somebody_chose(folder):
    change_meta(folder, seeds=(0, 1, 2, 3, 7))
    refused(folder, META, "seeds must be [0, 1, 2, 3, 4]")


def test_a_missing_instance(folder):
    plans(folder, SECOND).unlink()
    refused(folder, SECOND, "is missing")


def test_too_many_evaluations(folder):
    change_first(folder, evaluations=11)
    refused(folder, FIRST, "evaluated 11 plans with a budget of 10")


def test_fewer_evaluations_than_it_took_are_found_by_running_again(folder):
    def hurried(entries):
        first = entries[0]
        curve = tuple(point._replace(evaluations=min(point.evaluations, 5)) for point in first.curve)
        return [replace(first, evaluations=5, curve=curve), *entries[1:]]

    change(folder, hurried)
    submission = verify(folder)
    with pytest.raises(LeaderboardError, match="run again"):
        rerun(folder, submission, submission.entries[0])


def test_another_suite(folder):
    change_meta(folder, suite_sha256="0" * 64)
    refused(folder, META, "made for another quick-v1")


def test_a_suite_that_was_changed_here(folder, monkeypatch):
    """Should the code make another program of an id than the suite pinned, nothing can be compared."""
    from memplace_env.leaderboard import pinned

    monkeypatch.setattr(pinned, "costs_sha256", lambda costs: "other")
    pinned.pinned.cache_clear()
    refused(folder, FIRST, "costs_sha256", "install the version")
    pinned.pinned.cache_clear()


def test_another_version_of_the_code(folder):
    change_meta(folder, memplace="0.0.9")
    refused(folder, META, "made with memplace 0.0.9")


def test_one_seed_copied_to_another(folder):
    change(folder, lambda entries: [entries[0], replace(entries[0], seed=1), *entries[2:]])
    refused(folder, FIRST, "copied from the other")


def test_one_run_twice(folder):
    change(folder, lambda entries: [entries[0], *entries])
    refused(folder, FIRST, "two runs")


def test_two_submissions_of_one_name():
    with pytest.raises(LeaderboardError, match="called 'local-search'"):
        check_unique(["local-search", "exact", "local-search"])


def test_runs_in_the_file_of_another_environment(folder):
    shutil.copy(plans(folder, SECOND), plans(folder, FIRST))
    refused(folder, FIRST, f"holds a run of {SECOND}")


@pytest.mark.parametrize("name", ["extra.txt", ".hidden", "plans.sh"])
def test_files_that_do_not_belong_there(folder, name):
    (folder / name).write_text("x")
    refused(folder, name, "does not belong")


def test_links_are_not_followed(folder, tmp_path):
    away = tmp_path / "away"
    shutil.move(plans(folder), away)
    plans(folder).symlink_to(away)
    refused(folder, FIRST, "no regular file")


def test_a_folder_of_plans_that_is_a_link(folder, tmp_path):
    shutil.move(folder / "plans", tmp_path / "away")
    (folder / "plans").symlink_to(tmp_path / "away")
    refused(folder, "plans", "is no folder")


def test_pipes_do_not_hang(folder):
    plans(folder).unlink()
    os.mkfifo(plans(folder))
    refused(folder, FIRST, "no regular file")


@pytest.mark.parametrize("name", ["../../etc/passwd", "MemPlace-Nothing-v0", "a\\b"])
def test_names_that_are_no_instance(folder, name):
    def renamed(entries):
        return [replace(entries[0], env_id=name), *entries[1:]]

    change(folder, renamed)
    refused(folder, "holds a run of")


def test_a_file_for_no_instance(folder):
    shutil.copy(plans(folder), plans(folder, "MemPlace-Nothing-v0"))
    refused(folder, "MemPlace-Nothing-v0", "no instance")


def test_a_huge_file(folder):
    with plans(folder).open("wb") as file:
        file.truncate(files.PACKED_BYTES + 1)
    refused(folder, FIRST, "are the most")


def test_a_huge_description(folder):
    (folder / META).write_text("#" * (files.META_BYTES + 1))
    refused(folder, META, "are the most")


def test_a_file_that_unpacks_to_too_much(folder, monkeypatch):
    monkeypatch.setattr(files, "UNPACKED_BYTES", 2**24)
    plans(folder).write_bytes(lzma.compress(bytes(2**24 + 1), preset=1))
    refused(folder, FIRST, "unpacks to more than")


def test_files_that_together_unpack_to_too_much(folder, monkeypatch):
    monkeypatch.setattr(files, "WHOLE_BYTES", 2**12)
    refused(folder, "plans unpacks to more than 4,096 bytes")


def test_too_many_lines(folder):
    plans(folder).write_bytes(lzma.compress(b"\n" * (files.RUNS + 1)))
    refused(folder, FIRST, "has more than 1,000 lines")


@pytest.mark.parametrize("cut", [0, 10, -5])
def test_a_damaged_file(folder, cut):
    plans(folder).write_bytes(plans(folder).read_bytes()[:cut])
    refused(folder, FIRST)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("seed", True, "no whole number"),
        ("latency_ps", -1, "no whole number"),
        ("latency_ps", 10**30, "no whole number"),
        ("evaluations", 1.5, "no whole number"),
        ("seconds", "soon", "seconds"),
        ("seconds", float("nan"), "NaN is no number"),
        ("seconds", 1e9, "seconds"),
        ("curve", [[1, 2]], "curve"),
        ("curve", {}, "curve"),
        ("plan", None, "plan"),
        ("budget", 10, "budget"),
        ("env_id", "\x1b[31m", "env_id"),
        ("env_id", "x" * 10**5, "env_id"),
        ("more", 1, "exactly the fields"),
    ],
)
def test_fields_of_another_kind(folder, field, value, said):
    lines = [json.loads(to_line(entry)) for entry in read_entries(plans(folder))]
    lines[0][field] = value
    plans(folder).write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    refused(folder, FIRST, "line 1", said)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "1" * 5000, "null", "{}", '{"env_id": 1', "\x00"],
    ids=["deep", "long number", "null", "empty", "cut", "zero"],
)
def test_lines_that_are_no_run(folder, text):
    plans(folder).write_bytes(lzma.compress(text.encode()))
    refused(folder, FIRST, "line 1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "no TOML"),
        ("x = " + "[" * 5000, "no TOML"),
        ('colour = "red"', "no field 'colour'"),
        ('name = "a\\nb"', "letters, digits"),
        ('name = "  "', "letters, digits"),
        ('link = "javascript:alert(1)"', "https://"),
        ('formulations = ["dynamic"]', "formulations"),
        ('budgets = ["10", "10"]', "twice"),
        ('deterministic = "yes"', "true or false"),
        ('agent = "x"', "'name' is missing"),
        ("options = {a = {b = 1}}", "options.a must be a text, a number"),
        ("hardware = {cpu = 0x" + "f" * 9999 + "}", "hardware.cpu must be a text, a number"),
        ('hardware = {"\\u001b" = 1}', "a key of hardware must be one line"),
        ("seeds = [0x" + "f" * 9999 + "]", "seeds must be a list of whole numbers from 0"),
        ("x = " + "1" * 5000, "too many digits"),
        ('training = {ids = ["a"]}', "must have ids, plans and seconds"),
    ],
)
def test_descriptions_that_are_none(folder, text, said):
    (folder / META).write_text(text)
    refused(folder, META, said)


def test_budgets_of_no_track(folder):
    change_meta(folder, budgets=("11",))
    refused(folder, META, "has no budget '11'")


def test_a_deterministic_row_has_one_seed(folder):
    change_meta(folder, deterministic=True)
    refused(folder, META, "seeds must be [0]")


def test_nothing_that_measures_with_noise_is_deterministic(folder):
    change_meta(folder, track="black-box-2", budgets=("20",), seeds=(0,), deterministic=True)
    refused(folder, META, "not deterministic")
    for nominal, seeds in ((True, (0,)), (False, (0, 1, 2, 3, 4))):
        meta = running.describe(SUITE, SUITE.track("black-box-2"), "density-greedy", {}, ["20"], nominal=nominal)
        assert (meta.deterministic, meta.seeds) == (nominal, seeds)


def test_training_on_the_test_split(folder):
    from memplace_env.leaderboard.checks import check_meta
    from memplace_env.leaderboard.submission import Training

    meta = replace(read_meta(folder / META), suite="one-shot-v1", suite_sha256=load_suite("one-shot-v1").sha256)
    trained = replace(meta, track="zero-shot", training=Training(("MemPlace-DiT-S-2-v0", FIRST), 10, 1.0))
    with pytest.raises(LeaderboardError, match="not in the train split"):
        check_meta(replace(trained, training=Training(tuple(SUITE.instances), 10, 1.0)), meta.memplace)


def test_an_unfinished_run_says_so_and_goes_on(folder):
    parts = folder / "parts" / FIRST
    parts.mkdir(parents=True)
    for entry in read_entries(plans(folder)):
        (parts / f"10-{entry.seed}.json").write_text(to_line(entry))
    plans(folder).unlink()
    (parts / "10-3.json").unlink()
    refused(folder, "unfinished")
    running.run(read_meta(folder / META), folder)
    assert len(verify(folder).entries) == 20


def test_another_submission_is_not_written_over(folder):
    meta = replace(read_meta(folder / META), name="other")
    with pytest.raises(LeaderboardError, match="holds another submission"):
        running.run(meta, folder)


def curve_of(folder, points):
    change(folder, lambda entries: [replace(entries[0], curve=tuple(points(entries[0]))), *entries[1:]])


def test_a_curve_that_was_faster_on_the_way(folder):
    curve_of(folder, lambda entry: [Point(1, 0.0, 1), entry.curve[-1]])
    refused(folder, FIRST, "does not improve")
    curve_of(folder, lambda entry: [Point(1, 0.0, 0), entry.curve[-1]])
    refused(folder, FIRST)


def test_under_noise_a_curve_may_rise_but_not_come_from_nowhere(honest):
    entry = verify(honest).entries[0]
    end = entry.curve[-1]
    for factor, fine in ((0.95, True), (0.5, False), (0.0, False)):
        earlier = Point(1, 0.0, round(factor * entry.latency_ps))
        told = replace(entry, curve=(earlier, end))
        if fine:
            check_spending(told, noise=0.02)
        else:
            with pytest.raises(LeaderboardError, match="faster than its plan"):
                check_spending(told, noise=0.02)


def test_a_run_in_no_time(folder):
    change_first(folder, seconds=0.0, curve=())
    refused(folder, FIRST, "0 s")


def test_a_curve_without_end(folder):
    curve_of(folder, lambda entry: [Point(1, 0.0, 5)] * (files.POINTS + 1))
    refused(folder, FIRST, "curve")


def test_another_row_with_the_same_runs(honest):
    submission = verify(honest)
    other = replace(submission, meta=replace(submission.meta, name="my own work"))
    with pytest.raises(LeaderboardError, match="the same run"):
        Board.of([submission, other])


def test_names_that_differ_by_case():
    with pytest.raises(LeaderboardError, match="name of its own"):
        check_unique(["local-search", "Local-Search"])


def test_a_lucky_seed_is_not_deterministic(folder):
    """Running again takes another seed."""
    change_meta(folder, deterministic=True, seeds=(0,), options={"temperature": 0.01})
    for env_id in SUITE.instances:
        if env_id.startswith("MemPlace"):
            change(folder, lambda entries: [replace(entries[2], seed=0)], env_id)
    submission = verify(folder)
    unlike = []
    for entry in submission.entries:
        try:
            rerun(folder, submission, entry)
        except LeaderboardError as error:
            unlike.append(str(error))
    assert unlike
    assert all("run again" in each for each in unlike)


def test_what_a_killed_run_left_goes(folder):
    for left in (folder / f".{META}.abc", folder / "plans" / f".{FIRST}.jsonl.xz.abc"):
        left.write_text("half")
    refused(folder, "does not belong")
    running.run(read_meta(folder / META), folder)
    verify(folder)


def test_two_runs_do_not_share_a_folder(folder):
    with alone(folder), pytest.raises(MemPlaceError, match="Another run"):
        running.run(read_meta(folder / META), folder)


@pytest.mark.parametrize("agent", ["subprocess:Popen", "os:getcwd", "json:JSONDecoder"])
def test_what_is_no_agent_is_not_called(folder, agent, tmp_path):
    change_meta(folder, agent=agent, options={"args": ["touch", str(tmp_path / "owned")]})
    submission = verify(folder)
    with pytest.raises(AgentError, match="no agent"):
        rerun(folder, submission, submission.entries[0])
    assert not (tmp_path / "owned").exists()
