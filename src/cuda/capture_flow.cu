/* The dependencies between the parts of a capture.
 *
 * A stream orders launches one after the other.  But a part only has to wait for earlier parts that write what it touches
 * or touch what it writes.  So the edges between parts are replaced:
 *
 *     dx = dy W, dw = dy x, db = sum dy       one after the other   ->   concurrent, after what computed dy
 *
 * Small layers leave most of the device idle; for them this saves much of the time.
 *
 * Kernels with a device-side wait (kernels/early.h) were captured with programmatic edges that let them start early; new
 * edges to them are programmatic, too.  What such a kernel waits for has waited in turn, so transitive edges are redundant.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdint>
#include <unordered_map>

#include "cuda/capture.h"

typedef std::vector<cudaGraphNode_t> node_list;
typedef std::unordered_set<cudaGraphNode_t> node_set;

enum { FULL, EARLY, KINDS };
static const cudaGraphEdgeData early_edge = {cudaGraphKernelNodePortProgrammatic, 0,
                                             cudaGraphDependencyTypeProgrammatic};

/* Each kind is passed to CUDA in a call of its own: a call with both would take full edges for early ones. */
struct edges {
    node_list from[KINDS], to[KINDS];
    void add(cudaGraphNode_t a, cudaGraphNode_t b, int kind) { from[kind].push_back(a), to[kind].push_back(b); }
    template <class F> cudaError_t each_kind(cudaGraph_t graph, F call) const
    {
        const std::vector<cudaGraphEdgeData> data(from[EARLY].size(), early_edge);
        cudaError_t status = cudaSuccess;
        for (int k = 0; k < KINDS && !status; k++)
            if (const size_t n = from[k].size())
                status = call(graph, from[k].data(), to[k].data(), k == EARLY ? data.data() : nullptr, n);
        return status;
    }
};

/* The kind of an edge; KINDS: neither of them. */
static int kind_of(const cudaGraphEdgeData &x)
{
    if (!x.from_port && !x.to_port && !x.type)
        return FULL;
    return x.from_port == early_edge.from_port && !x.to_port && x.type == early_edge.type ? EARLY : KINDS;
}

static bool is_kernel(cudaGraphNode_t node)
{
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeKernel;
}

static bool conflict(const mx_touch &a, const mx_touch &b)
{
    const char *x = (const char *)a.at, *y = (const char *)b.at;
    return (a.written || b.written) && x < y + b.bytes && y < x + a.bytes;
}

static bool conflict(const std::vector<mx_touch> &a, const std::vector<mx_touch> &b)
{
    for (const mx_touch &x : a)
        for (const mx_touch &y : b)
            if (conflict(x, y))
                return true;
    return false;
}

/* A bit set for each part: the parts that have finished when it begins. */
struct ancestry {
    size_t words;
    std::vector<uint64_t> bits;
    explicit ancestry(size_t n) : words((n + 63) / 64), bits(n * words) {}
    bool has(size_t part, size_t other) const { return bits[part * words + other / 64] >> (other % 64) & 1; }
    void add(size_t part, size_t other)
    {
        for (size_t w = 0; w < words; w++)
            bits[part * words + w] |= bits[other * words + w];
        bits[part * words + other / 64] |= (uint64_t)1 << (other % 64);
    }
};

static size_t begin_of(const mx_capture *r, size_t part) { return part ? r->ends[part - 1] : 0; }

/* Edges of the graph between nodes of different parts; false: one of them is of a special kind. */
static bool between_parts(const mx_capture *r, const std::vector<int> &part_of, edges *found, edges *within)
{
    size_t n = 0;
    if (cudaGraphGetEdges(r->graph, nullptr, nullptr, nullptr, &n) != cudaSuccess)
        return false;
    node_list from(n), to(n);
    std::vector<cudaGraphEdgeData> data(n);
    if (n && cudaGraphGetEdges(r->graph, from.data(), to.data(), data.data(), &n) != cudaSuccess)
        return false;
    std::unordered_map<cudaGraphNode_t, int> where;
    for (size_t i = 0; i < r->nodes.size(); i++)
        where[r->nodes[i]] = part_of[i];
    for (size_t i = 0; i < n; i++) {
        const int kind = kind_of(data[i]);
        if (kind == KINDS)
            return false;
        (where[from[i]] == where[to[i]] ? within : found)->add(from[i], to[i], kind);
    }
    return true;
}

/* The nodes of each part without a predecessor (successor) in the same part. */
static void find_ends(const mx_capture *r, const edges &within, std::vector<node_list> *first,
                      std::vector<node_list> *last)
{
    node_set followers, leaders;
    for (int k = 0; k < KINDS; k++) {
        followers.insert(within.to[k].begin(), within.to[k].end());
        leaders.insert(within.from[k].begin(), within.from[k].end());
    }
    for (size_t p = 0; p < r->ends.size(); p++)
        for (size_t i = begin_of(r, p); i < r->ends[p]; i++) {
            if (!followers.count(r->nodes[i]))
                (*first)[p].push_back(r->nodes[i]);
            if (!leaders.count(r->nodes[i]))
                (*last)[p].push_back(r->nodes[i]);
        }
}

/* waiting: kernels with a device-side wait */
static edges true_edges(const mx_capture *r, const std::vector<node_list> &first, const std::vector<node_list> &last,
                        const node_set &waiting)
{
    const size_t n = r->ends.size();
    ancestry before(n);
    edges made;
    for (size_t p = 0; p < n; p++)
        for (size_t q = p; !first[p].empty() && q-- > 0;) {
            if (last[q].empty() || before.has(p, q) || !conflict(r->spans[p], r->spans[q]))
                continue;
            before.add(p, q);
            for (cudaGraphNode_t from : last[q])
                for (cudaGraphNode_t to : first[p])
                    made.add(from, to, waiting.count(to) && is_kernel(from) ? EARLY : FULL);
        }
    return made;
}

mx_code mx_cuda_flow(mx_capture *r, bool early)
{
    const size_t n = r->ends.size();
    std::vector<int> part_of(r->nodes.size());
    std::vector<node_list> first(n), last(n);
    edges old, within;
    for (size_t p = 0; p < n; p++)
        for (size_t i = begin_of(r, p); i < r->ends[p]; i++)
            part_of[i] = (int)p;
    if (!between_parts(r, part_of, &old, &within) || (old.from[FULL].empty() && old.from[EARLY].empty()))
        return MX_OK; /* the sequential order is correct, too */
    find_ends(r, within, &first, &last);
    const node_set waiting(old.to[EARLY].begin(), early ? old.to[EARLY].end() : old.to[EARLY].begin());
    edges made = true_edges(r, first, last, waiting);
    for (size_t i = 0; !early && i < within.to[EARLY].size(); i++) { /* those within parts become full, too */
        old.add(within.from[EARLY][i], within.to[EARLY][i], EARLY);
        made.add(within.from[EARLY][i], within.to[EARLY][i], FULL);
    }
    const cudaError_t status = old.each_kind(r->graph, cudaGraphRemoveDependencies);
    return mx_cuda_fail(status ? status : made.each_kind(r->graph, cudaGraphAddDependencies), "capture");
}
