/* A program outside the tree: sees only what was installed.  SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char built[32];
    snprintf(built, sizeof built, "%d.%d.%d", MX_VERSION_MAJOR, MX_VERSION_MINOR, MX_VERSION_PATCH);
    if (strcmp(built, mx_version()) != 0) {
        fprintf(stderr, "outside: compiled against %s, running with %s\n", built, mx_version());
        return 1;
    }
    printf("gluon %s\n", mx_version());
    return mx_check("outside");
}
