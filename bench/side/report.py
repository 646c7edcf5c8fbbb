"""Reports of the comparison: tables on the terminal, JSON, and the chart.  SPDX-License-Identifier: Apache-2.0"""
import json
import os

import picture
from workloads import NAMES, ROWS


def amount(row, value):
    """A number with its unit: 0.146 us, 2.31 ms, 87 MB."""
    if row == "memory":
        return f"{value / 1e6:.0f} MB"
    for unit, scale in (("us", 1e6), ("ms", 1e3), ("s", 1)):
        if value * scale < 1000 or unit == "s":
            number = value * scale
            return f"{number:.3g} {unit}" if number < 100 else f"{number:.0f} {unit}"


def print_row(row, results, absent):
    """All ways in which a row was run, the fastest first."""
    print(f"\n{row.title}")
    ours = best(results, row.name, "gluon")
    for r in results:
        spread = "" if r["low"] == r["high"] else f"({amount(row.name, r['low'])} to {amount(row.name, r['high'])})"
        ratio = f"{r['median'] / ours['median']:.2f}x" if ours else ""
        threads = f"{r['threads']} thread{'s' if r['threads'] > 1 else ''}" if row.group == "network" else ""
        print(f"  {NAMES[r['peer']]:<13} {r['lane']:<20} {threads:<10} {amount(row.name, r['median']):>9} {ratio:>8}"
              f"  {spread}")
    if not results:
        print("  no peer ran it")
    for name, reason in absent.items():
        print(f"  {NAMES[name]:<13} skipped: {reason}")


def best(results, row, peer):
    """The fastest result of a peer in a row, or None."""
    own = [r for r in results if r["workload"] == row and r["peer"] == peer]
    return min(own, key=lambda r: r["median"]) if own else None


def print_summary(results, peers):
    """Rows against peers, each with its best lane and thread setting."""
    print("\nBest of each" + " " * 45 + "".join(f"{NAMES[peer]:>14}" for peer in peers) + "   ours is faster by")
    for row in ROWS:
        cells = [best(results, row.name, peer) for peer in peers]
        if not any(cells):
            continue
        line = "".join(f"{amount(row.name, cell['median']) if cell else '-':>14}" for cell in cells)
        others = [cell["median"] for peer, cell in zip(peers, cells) if cell and peer != "gluon"]
        ours = best(results, row.name, "gluon")
        faster = f"{min(others) / ours['median']:.2f}x" if ours and others else ""
        print(f"{row.title:<57}{line}   {faster:>8}")


def write(path, facts, results):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".json", "w") as file:
        json.dump({"machine": facts, "results": results}, file, indent=1)
    with open(path + ".svg", "w") as file:
        file.write(picture.draw(facts, results))
    print(f"\nwritten: {path}.json, {path}.svg")
