"""Runs the Python listings of one page in one namespace, as a notebook would: the value of a last expression is printed.

Requests are lines of JSON on standard input: {"code": ..., "line": ..., "page": ...}; answers {"printed": ..., "error": ...}.
What a listing prints is caught below Python, so that the library's own output is part of it.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import json
import os
import sys
import tempfile
import traceback
import types


def run(code, page, line, namespace):
    """Executes a listing; tracebacks have the line numbers of the page."""
    tree = ast.parse(code, page)
    ast.increment_lineno(tree, line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, page, "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), page, "eval"), namespace)
        if value is not None:
            print(repr(value))


def catch(request, namespace):
    """The answer to one request."""
    with tempfile.TemporaryFile() as file:
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        error = None
        try:
            run(request["code"], request["page"], request["line"], namespace)
        except BaseException as problem:  # SystemExit, too, must not end the page
            error = {"last": "".join(traceback.format_exception_only(type(problem), problem)),
                     "all": traceback.format_exc()}
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)
        file.seek(0)
        return {"printed": file.read().decode(errors="replace"), "error": error}


def main():
    answers = os.fdopen(os.dup(1), "w")
    page = sys.modules["__main__"] = types.ModuleType("__main__")  # classes of the page can be pickled, as those of a program
    for request in sys.stdin:
        json.dump(catch(json.loads(request), vars(page)), answers)
        answers.write("\n")
        answers.flush()


if __name__ == "__main__":
    main()
