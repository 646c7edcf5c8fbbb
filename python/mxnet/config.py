"""What C programs need to use the library that comes with this package.

    cc program.c $(python -m mxnet.config --cflags --libs)

A wheel contains the headers and libgluon.so; in a source tree they are those of the build.
"""
import argparse
import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _folder(name):
    """The package's folder of that name, or the build's, from which the package can be imported as well."""
    for place in (_PACKAGE, os.path.dirname(os.path.dirname(_PACKAGE))):
        folder = os.path.join(place, name)
        wanted = "gluon.h" if name == "include" else "libgluon.so"
        if os.path.exists(os.path.join(folder, wanted)):
            return folder
    raise FileNotFoundError(f"this installation of mxnet has no {name} folder for C programs: "
                            "use a wheel made by 'make wheel', or 'make install'")


def include_dir():
    """The folder of gluon.h."""
    return _folder("include")


def library_dir():
    """The folder of libgluon.so."""
    return _folder("lib")


def cflags():
    """Options for compiling."""
    return "-I" + include_dir()


def libs():
    """Options for linking; programs find the library where it is now."""
    folder = library_dir()
    return f"-L{folder} -Wl,-rpath,{folder} -lgluon"


def command():
    """Runs the gluon command with the arguments of this process; does not return."""
    for place in (_PACKAGE, os.path.dirname(os.path.dirname(_PACKAGE))):
        program = os.path.join(place, "bin", "gluon")
        if os.access(program, os.X_OK):
            os.execv(program, ["gluon"] + sys.argv[1:])
    sys.exit("gluon: this installation of mxnet does not contain the command: use a wheel made by 'make wheel'")


def main():
    parser = argparse.ArgumentParser(prog="python -m mxnet.config", description="options for C programs that use libgluon")
    parser.add_argument("--cflags", action="store_true", help="options for compiling")
    parser.add_argument("--libs", action="store_true", help="options for linking")
    options = parser.parse_args()
    if not options.cflags and not options.libs:
        parser.error("nothing was asked for: --cflags, --libs or both")
    try:
        print(" ".join(([cflags()] if options.cflags else []) + ([libs()] if options.libs else [])))
    except FileNotFoundError as error:
        sys.exit(f"mxnet.config: {error}")


if __name__ == "__main__":
    main()
