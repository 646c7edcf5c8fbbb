"""The share of the exchange that is hidden behind backward, between two hosts (network namespaces) at several rates.

    python bench/dist/hidden.py [--rates 10gbit 1gbit] [--models lenet resnet18 lstm]

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "distributed"))
import hosts  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", nargs="+", default=["10gbit", "1gbit"])
    parser.add_argument("--models", nargs="+", default=["lenet", "resnet18", "lstm"])
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    why = hosts.missing()
    if why:
        print(f"hidden: {why}")
        return 0
    print(f"{'':10}{'rate':>8}{'step, ms':>10}{'exchange':>10}{'wait':>8}{'hidden':>8}")
    with hosts.Hosts() as two:
        for rate in args.rates:
            two.limit(rate)
            for model in args.models:
                command = two.command(2, sys.executable, os.path.join(HERE, "timeline.py"), model, "--steps", str(args.steps))
                done = subprocess.run(command, env=two.environment(), text=True, stdout=subprocess.PIPE, check=True, timeout=300)
                r = json.loads(done.stdout.splitlines()[-1])
                print(f"{model:10}{rate:>8}{r['step']:10.1f}{r['exchange']:10.1f}{r['wait']:8.1f}{100 * r['hidden']:7.0f}%",
                      flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
