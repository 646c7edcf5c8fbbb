/* The SVG writer: a drawing of a graph without any other program, for notebooks and `gluon plot net.svg`.
 *
 *     rank 0        data              a node's rank is the length of the longest path that leads to it
 *                     |
 *     rank 1        conv0             ranks are rows; within a row, nodes are sorted by where their neighbours are
 *                   /    \
 *     rank 2    bn0       |           arrows over several rows pass beside the boxes of those rows
 *                   \    /
 *     rank 3        plus0
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/sort.h"
#include "graph/dot.h"

enum { HEIGHT = 40, ROW = 92, GAP = 28, LETTER = 7, MARGIN = 16, SWEEPS = 6 };

typedef struct place {
    int64_t node;
    int rank;
    double x;      /* the centre */
    double width;  /* of the box */
    double wanted; /* where the neighbours are: the order of the next sweep */
} place;

typedef struct picture {
    const mx_graph *graph;
    const mx_dot *how;
    place *place;   /* (n) visible nodes, row by row */
    int64_t *where; /* (nodes) index of a node's place; -1: not drawn */
    int64_t n;
    int ranks;
    double left, right;
} picture;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static place *place_of_entry(const picture *p, int64_t entry)
{
    const int64_t node = entry < 0 ? -1 : mx_graph_node_of(p->graph, entry);
    return node < 0 || p->where[node] < 0 ? NULL : &p->place[p->where[node]];
}

/* Calls `see` for every arrow from a drawn node to a drawn node. */
static void each_arrow(picture *p, void (*see)(picture *p, place *from, place *to, int64_t entry, void *arg), void *arg)
{
    for (int64_t i = 0; i < p->graph->n; i++)
        for (int64_t k = p->graph->in_row[i]; p->where[i] >= 0 && k < p->graph->in_row[i + 1]; k++) {
            place *from = place_of_entry(p, p->graph->in_entry[k]);
            if (from)
                see(p, from, &p->place[p->where[i]], p->graph->in_entry[k], arg);
        }
}

static void push_down(picture *p, place *from, place *to, int64_t entry, void *arg)
{
    (void)p, (void)entry, (void)arg;
    if (to->rank <= from->rank)
        to->rank = from->rank + 1;
}

/* A variable stands in the row above its first user. */
static void pull_variables(picture *p, place *from, place *to, int64_t entry, void *arg)
{
    int *first = arg;
    (void)entry;
    const int64_t i = from - p->place;
    if (!p->graph->nodes[from->node]->op && (!first[i] || to->rank < first[i]))
        first[i] = to->rank;
}

static int by_rank(const void *a, const void *b, const void *context)
{
    const place *x = a, *y = b;
    (void)context;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->wanted != y->wanted)
        return x->wanted < y->wanted ? -1 : 1;
    return x->node < y->node ? -1 : 1;
}

/* Sorts the places and sets the boxes of each row side by side, the row in the middle. */
static void arrange(picture *p)
{
    mx_sort(p->place, p->n, sizeof *p->place, by_rank, NULL);
    p->left = p->right = 0;
    for (int64_t i = 0, end; i < p->n; i = end) {
        double width = -GAP;
        for (end = i; end < p->n && p->place[end].rank == p->place[i].rank; end++)
            width += p->place[end].width + GAP;
        double x = -width / 2;
        p->left = x < p->left ? x : p->left;
        p->right = -x > p->right ? -x : p->right;
        for (int64_t k = i; k < end; x += p->place[k++].width + GAP) {
            p->place[k].x = x + p->place[k].width / 2;
            p->where[p->place[k].node] = k;
        }
    }
    p->ranks = p->n ? p->place[p->n - 1].rank + 1 : 0;
}

typedef struct neighbours {
    double sum;
    int count;
} neighbours;

static void add_neighbours(picture *p, place *from, place *to, int64_t entry, void *arg)
{
    neighbours *sums = arg;
    (void)entry;
    sums[to - p->place].sum += from->x, sums[to - p->place].count++;
    sums[from - p->place].sum += to->x, sums[from - p->place].count++;
}

static void sweep(picture *p, neighbours *sums)
{
    memset(sums, 0, (size_t)p->n * sizeof *sums);
    each_arrow(p, add_neighbours, sums);
    for (int64_t i = 0; i < p->n; i++)
        p->place[i].wanted = sums[i].count ? sums[i].sum / sums[i].count : p->place[i].x;
    arrange(p);
}

static double box_width(const mx_gnode *node)
{
    mx_text label = {0};
    mx_graph_label(&label, node, false);
    const char *text = label.failed ? "" : mx_text_get(&label);
    const size_t first = strcspn(text, "\n"), rest = strlen(text) - first;
    mx_text_free(&label);
    return 24 + LETTER * (double)(first > rest ? first : rest);
}

static void choose_rows(picture *p, int *first)
{
    each_arrow(p, push_down, NULL);
    each_arrow(p, pull_variables, first);
    for (int64_t i = 0; i < p->n; i++)
        if (first[i])
            p->place[i].rank = first[i] - 1;
}

static mx_code lay_out(picture *p)
{
    for (int64_t i = 0; i < p->graph->n; i++) {
        p->where[i] = p->how->hidden && p->how->hidden[i] ? -1 : p->n;
        if (p->where[i] >= 0)
            p->place[p->n++] = (place){.node = i, .width = box_width(p->graph->nodes[i])};
    }
    const size_t bytes = (size_t)p->n * sizeof(neighbours) + 1;
    neighbours *sums = mx_alloc_zero(bytes);
    int *first = mx_alloc_zero((size_t)p->n * sizeof *first + 1);
    if (sums && first) {
        choose_rows(p, first);
        arrange(p);
        for (int i = 0; i < SWEEPS; i++)
            sweep(p, sums);
    }
    mx_free(first, (size_t)p->n * sizeof *first + 1);
    mx_free(sums, bytes);
    return mx_error_code();
}

/* ---- boxes and arrows -------------------------------------------------------------------------------------------- */

static void add_text(mx_text *out, const char *more, size_t length)
{
    for (size_t i = 0; i < length; i++)
        switch (more[i]) {
        case '<': mx_text_add(out, "&lt;"); break;
        case '>': mx_text_add(out, "&gt;"); break;
        case '&': mx_text_add(out, "&amp;"); break;
        default: mx_text_add_char(out, (unsigned char)more[i] < ' ' ? ' ' : more[i]);
        }
}

static double top_of(const place *at) { return MARGIN + (double)at->rank * ROW; }

static void draw_box(mx_text *out, const picture *p, const place *at)
{
    const mx_gnode *node = p->graph->nodes[at->node];
    mx_text label = {0};
    mx_graph_label(&label, node, false);
    mx_text_print(
        out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%d\" rx=\"%d\" fill=\"%s\" stroke=\"#888\"/>\n",
        at->x - at->width / 2, top_of(at), at->width, HEIGHT, node->op ? 6 : HEIGHT / 2, mx_graph_colour(node));
    const char *text = label.failed ? "" : mx_text_get(&label);
    const size_t first = strcspn(text, "\n");
    const bool two = text[first] && text[first + 1];
    mx_text_print(out, "<text x=\"%.0f\" y=\"%.0f\">", at->x, top_of(at) + (two ? 17 : 24));
    add_text(out, text, first);
    if (two) {
        mx_text_print(out, "</text>\n<text class=\"n\" x=\"%.0f\" y=\"%.0f\">", at->x, top_of(at) + 32);
        add_text(out, text + first + 1, strlen(text + first + 1));
    }
    mx_text_add(out, "</text>\n");
    mx_text_free(&label);
}

/* The right end of the boxes in the rows between two places. */
static double beside(const place *from, const place *to)
{
    double x = from->x > to->x ? from->x : to->x;
    for (const place *at = from; at < to; at++)
        if (at->rank > from->rank && at->rank < to->rank && at->x + at->width / 2 + GAP / 2 > x)
            x = at->x + at->width / 2 + GAP / 2;
    return x;
}

static void draw_arrow(picture *p, place *from, place *to, int64_t entry, void *arg)
{
    mx_text *out = arg;
    const double y0 = top_of(from) + HEIGHT, y1 = top_of(to) - 5, bend = ROW - HEIGHT;
    double x = (from->x + to->x) / 2;
    mx_text_print(out, "<path d=\"M%.0f %.0f ", from->x, y0);
    if (to->rank == from->rank + 1) {
        mx_text_print(out, "C%.0f %.0f %.0f %.0f ", from->x, y0 + bend / 2, to->x, y1 - bend / 2);
    } else {
        x = beside(from, to);
        p->right = x + GAP > p->right ? x + GAP : p->right;
        mx_text_print(out, "C%.0f %.0f %.0f %.0f %.0f %.0f L%.0f %.0f C%.0f %.0f %.0f %.0f ", from->x, y0 + bend / 2, x,
                      y0 + bend / 2, x, y0 + bend, x, y1 - bend, x, y1 - bend / 2, to->x, y1 - bend / 2);
    }
    mx_text_print(out, "%.0f %.0f\" marker-end=\"url(#a)\"/>\n", to->x, y1);
    char shape[MX_SHAPE_TEXT];
    if (mx_shape_known(&p->how->shape[entry]))
        mx_text_print(out, "<text class=\"s\" x=\"%.0f\" y=\"%.0f\">%s</text>\n", x + 5, (y0 + y1) / 2 + 3,
                      mx_shape_text(&p->how->shape[entry], shape));
}

static void draw(mx_text *out, picture *p)
{
    mx_text body = {0};
    each_arrow(p, draw_arrow, &body);
    for (int64_t i = 0; i < p->n; i++)
        draw_box(&body, p, &p->place[i]);
    const double width = p->right - p->left + 2 * MARGIN + 12 * LETTER,
                 height = 2 * MARGIN + p->ranks * ROW - (ROW - HEIGHT);
    mx_text_print(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%.0f 0 %.0f %.0f\">\n"
        "<style>text{font:12px Helvetica,Arial,sans-serif;text-anchor:middle;fill:#222}.n{font-size:10px;fill:#555}"
        ".s{font-size:10px;fill:#666;text-anchor:start;paint-order:stroke;stroke:#fff;stroke-width:3px}path{fill:none;stroke:#555}.a{fill:#555;stroke:none}</style>\n"
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"4\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
        "orient=\"auto\"><path class=\"a\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
        width, height, p->left - MARGIN, width, height);
    out->failed |= body.failed;
    mx_text_add(out, mx_text_get(&body));
    mx_text_add(out, "</svg>\n");
    mx_text_free(&body);
}

mx_code mx_graph_svg(mx_text *text, const mx_graph *graph, const mx_dot *how)
{
    const size_t places = (size_t)graph->n * sizeof(place) + 1, indices = (size_t)graph->n * sizeof(int64_t) + 1;
    picture p = {.graph = graph, .how = how, .place = mx_alloc_zero(places), .where = mx_alloc_zero(indices)};
    if (p.place && p.where && !lay_out(&p))
        draw(text, &p);
    mx_free(p.place, places);
    mx_free(p.where, indices);
    return mx_error_code();
}
