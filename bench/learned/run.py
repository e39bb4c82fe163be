"""How long the review queue takes with a thousand candidates, and whether it is whole after being killed.

    python bench/learned/run.py                  # times
    python bench/learned/run.py --kills 100      # and 100 accepts of 300 files each, killed at random moments

Each figure is the median of `--runs`, in seconds of wall time (a person waits for it) and of CPU time with its children (git)."""
import argparse
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT/'tests')]

import resource

from lq import fast_candidates, git, head, mkrepo, refs

import ramabana.learned as learned
from ramabana.gitio import git_version

def spent():
    "CPU seconds of this process and of its children that ended."
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

def timed(call, *args):
    "The answer of `call`, wall seconds, CPU seconds."
    wall, cpu = time.perf_counter(), spent()
    answer = call(*args)
    return answer, time.perf_counter() - wall, spent() - cpu

def measured(count, path, middle):
    "One run: a fresh folder with `count` candidates; rows of (what, wall, cpu)."
    with tempfile.TemporaryDirectory() as top:
        folder = mkrepo(top)
        ids = fast_candidates(folder, count, path=path)
        rows, wanted = [], ids[middle]
        for name, call, args in (('pending', learned.pending, ()), ('diff', learned.diff, (wanted,)), ('accept', learned.accept, (wanted,)), ('pending after it', learned.pending, ()), ('undo', learned.undo, ()),
                ('reject', learned.reject, (wanted,)), ('pending, one rejected', learned.pending, ())):
            answer, wall, cpu = timed(call, folder, *args)
            if isinstance(answer, dict) and not answer['ok']: raise SystemExit(f'{name}: {answer["error"]}')
            rows.append((name, wall, cpu))
        return rows

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=1000, help='candidates')
    parser.add_argument('--runs', type=int, default=3, help='fresh folders; the median is shown')
    parser.add_argument('--kills', type=int, default=0, help='accepts that are killed')
    parser.add_argument('--files', type=int, default=300, help='files of a candidate that is killed')
    said = parser.parse_args()
    print(f'{platform.machine()}, Python {platform.python_version()}, git {".".join(map(str, git_version()))}, {said.count} candidates, median of {said.runs}\n')
    print('| | each adds a file: wall, CPU s | all change AGENTS.md: wall, CPU s |\n| --- | --- | --- |')
    shapes = [[measured(said.count, path, said.count // 2) for _ in range(said.runs)] for path in ('skills/s{i}/SKILL.md', 'AGENTS.md')]
    for n, (name, _, _) in enumerate(shapes[0][0]):
        cells = [f'{statistics.median(run[n][1] for run in runs):.2f}, {statistics.median(run[n][2] for run in runs):.2f}' for runs in shapes]
        print(f'| {name} | {" | ".join(cells)} |')
    if said.kills:
        from test_learned_processes import rounds
        with tempfile.TemporaryDirectory() as top: done = rounds(top, said.kills, said.files)
        print(f'\n{said.kills} accepts of {said.files} files killed at random moments: HEAD, files, index and queue agreed each time; {done} were carried out, {said.kills - done} not.')

if __name__ == '__main__': main()
