"""Lists of images: .lst files."""


def read_list(path):
    """(key, labels as a float32 NumPy array, path) of every line "number TAB label [TAB label ...] TAB path"."""
    import numpy
    rows = []
    with open(path) as file:
        for number, line in enumerate(file, 1):
            fields = line.strip().split("\t")
            if fields == [""]:
                continue
            try:
                if len(fields) < 3:
                    raise ValueError
                rows.append((int(fields[0]), numpy.array([float(x) for x in fields[1:-1]], dtype="float32"),
                             fields[-1]))
            except ValueError:
                raise ValueError(f"{path}, line {number}: wanted number, labels and path separated by tabs, got "
                                 f"{line.strip()!r}") from None
    return rows
