"""Two hosts on this machine: network namespaces joined by a cable (a veth pair), each with a host name of its own.

    host a (10.77.N.1)  ----veth, tc limits its rate----  host b (10.77.N.2)
    mpirun runs on a and reaches b through an agent, a script that enters b as ssh would

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import launch

AGENT = """#!/bin/sh
# mpirun calls this as: agent [option...] HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in *.1) name=%(a)s ;; *) name=%(b)s ;; esac
shift
ip netns exec $name unshare --uts sh -c 'hostname '$name'; exec sh -c "$0"' "$*"
status=$?
while [ -e %(off)s ]; do sleep 0.2; done   # ssh does not notice a power failure either
exit $status
"""


def _call(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


def missing():
    """Why there cannot be two hosts; None: there can."""
    why = launch.missing()
    if why:
        return why
    for tool in ("ip", "tc", "unshare"):
        if not shutil.which(tool):
            return f"{tool} is not installed (Debian packages iproute2, util-linux)"
    probe = f"gluon-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not permitted: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=False)
    return None


class Hosts:
    """Makes the hosts; as a context manager it removes them again, with whatever runs on them."""

    def __init__(self):
        number = os.getpid()
        self.names = {which: f"gluon-{which}-{number}" for which in "ab"}
        self.cables = {which: f"gl{which}{number}" for which in "ab"}  # 15 characters at most
        self.subnet = f"10.77.{number % 250 + 1}"
        self.folder = tempfile.mkdtemp()
        self.agent = os.path.join(self.folder, "agent")
        self.off = os.path.join(self.folder, "off")  # exists after a power failure

    def __enter__(self):
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT % {**self.names, "off": self.off})
        os.chmod(self.agent, 0o700)
        try:
            self._connect()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise RuntimeError(f"{error.cmd}: {error.stderr}") from error
        return self

    def _connect(self):
        for name in self.names.values():
            _call("ip", "netns", "add", name)
        _call("ip", "link", "add", self.cables["a"], "netns", self.names["a"], "type", "veth", "peer", "name",
              self.cables["b"], "netns", self.names["b"])
        for number, which in enumerate("ab", 1):
            inside = ("ip", "-n", self.names[which])
            _call(*inside, "addr", "add", f"{self.subnet}.{number}/24", "dev", self.cables[which])
            _call(*inside, "link", "set", self.cables[which], "up")
            _call(*inside, "link", "set", "lo", "up")

    def __exit__(self, *_):
        for which, name in self.names.items():
            self.kill(which)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def limit(self, rate):
        """The cable carries no more than this in each direction: "1gbit", "10gbit"."""
        for which, name in self.names.items():
            _call("tc", "-n", name, "qdisc", "replace", "dev", self.cables[which], "root", "tbf", "rate", rate, "burst", "256k",
                  "latency", "50ms")

    def cut(self):
        """Breaks the cable: nothing arrives any more, and nobody is told."""
        _call("ip", "-n", self.names["a"], "link", "set", self.cables["a"], "down")

    def kill(self, which):
        """Ends every process of a host."""
        pids = subprocess.run(["ip", "netns", "pids", self.names[which]], capture_output=True, text=True).stdout
        for pid in pids.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def power_off(self, which):
        """What the other host sees of a power failure: silence."""
        with open(self.off, "w", encoding="utf-8"):
            pass
        self.cut()
        self.kill(which)

    def command(self, processes, *words):
        """The command line that runs mpirun on host a, with as many processes on each host."""
        each = processes // 2
        line = ["mpirun", "--host", f"{self.subnet}.1:{each},{self.subnet}.2:{each}", "-np", str(processes), *words]
        inside = 'hostname "$0"; exec "$@"'
        return ["ip", "netns", "exec", self.names["a"], "unshare", "--uts", "sh", "-c", inside, self.names["a"], *line]

    def environment(self, **more):
        """For that command line.  mpirun looks after the other host as under `gluon run`, but more often."""
        subnet = f"{self.subnet}.0/24"
        more = {"OMPI_MCA_oob_tcp_keepalive_time": 2, "OMPI_MCA_oob_tcp_keepalive_intvl": 1,
                "OMPI_MCA_oob_tcp_keepalive_probes": 3, **more}
        return launch.environment(OMPI_MCA_plm_rsh_agent=self.agent, OMPI_MCA_oob_tcp_if_include=subnet,
                                  OMPI_MCA_btl_tcp_if_include=subnet, **more)

    def start(self, processes, program, *arguments, env=None):
        """Starts programs/`program`; the process of mpirun.  Its output goes to a file, output(): processes that outlive
        mpirun would keep a pipe open."""
        words = [sys.executable, os.path.join(launch.PROGRAMS, program), *map(str, arguments)]
        with open(os.path.join(self.folder, "output"), "w", encoding="utf-8") as file:
            return subprocess.Popen(self.command(processes, *words), env=self.environment(**(env or {})), stdout=file,
                                    stderr=subprocess.STDOUT)

    def output(self):
        """What the processes have printed."""
        with open(os.path.join(self.folder, "output"), encoding="utf-8") as file:
            return file.read()
