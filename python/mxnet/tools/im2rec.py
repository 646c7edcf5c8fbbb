"""Lists of images, and record files of the images in lists.

    python -m mxnet.tools.im2rec --list --recursive --train-ratio 0.8 pets photos
    python -m mxnet.tools.im2rec --resize 256 --num-thread 4 pets photos

The first call writes pets_train.lst and pets_val.lst, with a line "number TAB label TAB path" for every image in the folder
photos; the second one writes a .rec and an .idx file for every list pets*.lst. The command `gluon im2rec` does the same.
"""
import argparse
import os
import sys


def parse_args(argv=None):
    """The options of the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter,
                                     description="Makes lists of images, or record files of the images in lists.")
    parser.add_argument("prefix", help="prefix of the lists and record files")
    parser.add_argument("root", help="folder of the images")
    lists = parser.add_argument_group("lists")
    lists.add_argument("--list", action="store_true", help="make lists, else record files")
    lists.add_argument("--exts", nargs="+", default=[".jpeg", ".jpg", ".png"], help="suffixes of images")
    lists.add_argument("--chunks", type=int, default=1, help="number of lists")
    lists.add_argument("--train-ratio", type=float, default=1.0, help="fraction of images in PREFIX_train.lst")
    lists.add_argument("--test-ratio", type=float, default=0, help="fraction of images in PREFIX_test.lst")
    lists.add_argument("--recursive", action="store_true",
                       help="also look into folders; every folder with images is a class")
    lists.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the names")
    records = parser.add_argument_group("record files")
    records.add_argument("--pass-through", action="store_true", help="take files as they are")
    records.add_argument("--resize", type=int, default=0, help="length of the shorter side; 0: unchanged")
    records.add_argument("--center-crop", action="store_true", help="cut out the largest square in the centre")
    records.add_argument("--quality", type=int, default=95, help="JPEG: 1 to 100; PNG: 0 to 9")
    records.add_argument("--num-thread", type=int, default=1, help="threads that read and write images")
    records.add_argument("--color", type=int, default=1, choices=[-1, 0, 1],
                         help="1: three channels, 0: gray, -1: as stored")
    records.add_argument("--encoding", default=".jpg", choices=[".jpg", ".png"], help="format of the images")
    records.add_argument("--pack-label", action="store_true", help="all labels of a line, else the first")
    return parser.parse_args(argv)


def main(argv=None):
    """Runs the program; returns its exit code."""
    args = parse_args(argv)
    from mxnet import _core
    from mxnet.error import MXNetError
    try:
        _core.im2rec(args.list, os.path.abspath(args.prefix), os.path.abspath(args.root), tuple(args.exts), args.recursive,
                     args.chunks, args.train_ratio, args.test_ratio, args.shuffle, args.pass_through, args.resize,
                     args.center_crop, args.quality, args.num_thread, args.color, args.encoding, args.pack_label, print)
    except MXNetError as error:
        print(f"im2rec: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if "mxnet" not in sys.modules:  # started by its path: the package is the one that this file is in
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    sys.exit(main())
