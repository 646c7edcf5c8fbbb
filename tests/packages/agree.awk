# Two columns of numbers agree within rounding.  SPDX-License-Identifier: Apache-2.0
NF != 2 { exit 1 }
{ d = $1 - $2; d = d < 0 ? -d : d; s = $1 < 0 ? -$1 : $1; if (!(d <= 1e-5 * (s > 1 ? s : 1))) exit 1 }
END { if (NR == 0) exit 1 }
