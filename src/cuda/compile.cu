/* Kernels compiled at run time (see compile.h).
 *
 *     program + our headers + architecture + version of the compiler --hash--> file in the cache, or NVRTC --> kernel
 *
 * NVRTC is opened when it is first needed; without it everything else works.  A cache file is written under a temporary
 * name and renamed, so readers see complete files only; it begins with its key, size and checksum, which are checked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/compile.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <nvrtc.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

/* ---- NVRTC ------------------------------------------------------------------------------------------------------- */

#define FUNCTIONS(F) F(Version) F(CreateProgram) F(CompileProgram) F(DestroyProgram) F(GetCUBINSize) F(GetCUBIN)

static struct {
#define POINTER(name) decltype(&nvrtc##name) name;
    FUNCTIONS(POINTER)
    int version; /* 0: NVRTC is missing */
} nvrtc;

static void open_nvrtc(void)
{
    char name[64];
    snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!file && !(file = dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL)))
        return;
    bool all = true;
#define LOOK_UP(name) all &= (nvrtc.name = (decltype(nvrtc.name))dlsym(file, "nvrtc" #name)) != nullptr;
    FUNCTIONS(LOOK_UP)
    int major = 0, minor = 0;
    if (all && nvrtc.Version(&major, &minor) == NVRTC_SUCCESS)
        nvrtc.version = major * 1000 + minor;
}

/* Empty if it fails. */
static std::string compile(const std::string &program, int architecture)
{
    std::vector<const char *> names, texts;
    for (const mx_cuda_source *s = mx_cuda_sources; s->name; s++)
        names.push_back(s->name), texts.push_back(s->text);
    char target[32];
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d", architecture);
    const char *const options[] = {target, "-std=c++17", "--minimal"};
    const int known = nvrtc.version >= 13000 ? 3 : 2; /* --minimal: without host features */
    nvrtcProgram made;
    std::string code;
    size_t bytes = 0;
    if (nvrtc.CreateProgram(&made, program.c_str(), "chain.cu", (int)names.size(), texts.data(), names.data()) !=
        NVRTC_SUCCESS)
        return code;
    if (nvrtc.CompileProgram(made, known, options) == NVRTC_SUCCESS &&
        nvrtc.GetCUBINSize(made, &bytes) == NVRTC_SUCCESS) {
        code.resize(bytes);
        if (nvrtc.GetCUBIN(made, &code[0]) != NVRTC_SUCCESS)
            code.clear();
    }
    nvrtc.DestroyProgram(&made);
    return code;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* The start of a file. */
struct heading {
    char magic[8];
    uint64_t key[2];     /* of what was compiled */
    uint64_t bytes, sum; /* of what follows */
};
static const char magic[8] = {'G', 'L', 'U', 'O', 'N', 'K', '0', '1'};

static uint64_t hashed(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return hash ^ hash >> 31;
}

static void find_key(const std::string &program, int architecture, uint64_t key[2])
{
    const int versions[2] = {architecture, nvrtc.version};
    for (int k = 0; k < 2; k++) {
        uint64_t hash = hashed(k ? 0x9e3779b97f4a7c15u : 0xcbf29ce484222325u, versions, sizeof versions);
        for (const mx_cuda_source *s = mx_cuda_sources; s->name; s++)
            hash = hashed(hash, s->text, strlen(s->text));
        key[k] = hashed(hash, program.data(), program.size());
    }
}

/* The folder, created if needed; empty: there is no cache. */
static std::string cache_folder(void)
{
    const char *named = mx_flags_get()->kernel_cache, *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (!strcmp(named, "-") || (!*named && !(base && *base) && !(home && *home)))
        return "";
    std::string folder = *named ? named : base && *base ? base : std::string(home) + "/.cache";
    mkdir(folder.c_str(), 0700);
    if (!*named)
        mkdir((folder += "/gluon").c_str(), 0700);
    return folder;
}

static std::string path_of(const std::string &folder, const uint64_t key[2])
{
    char name[64];
    snprintf(name, sizeof name, "/%016llx%016llx.cubin", (unsigned long long)key[0], (unsigned long long)key[1]);
    return folder + name;
}

/* Empty: the file is missing or damaged. */
static std::string read_cached(const std::string &path, const uint64_t key[2])
{
    heading h;
    struct stat about;
    std::string code;
    FILE *file = fopen(path.c_str(), "rb");
    if (!file)
        return code;
    if (fread(&h, sizeof h, 1, file) == 1 && !memcmp(h.magic, magic, sizeof magic) &&
        !memcmp(h.key, key, sizeof h.key) && !fstat(fileno(file), &about) &&
        h.bytes == (uint64_t)about.st_size - sizeof h) {
        code.resize(h.bytes);
        if (fread(&code[0], 1, h.bytes, file) != h.bytes || hashed(0, code.data(), code.size()) != h.sum)
            code.clear();
    }
    fclose(file);
    return code;
}

static void write_cached(const std::string &path, const uint64_t key[2], const std::string &code)
{
    heading h;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.key, key, sizeof h.key);
    h.bytes = code.size(), h.sum = hashed(0, code.data(), code.size());
    const std::string aside = path + "." + std::to_string((long)getpid());
    FILE *file = fopen(aside.c_str(), "wb");
    if (!file)
        return;
    const bool written = fwrite(&h, sizeof h, 1, file) == 1 && fwrite(code.data(), 1, code.size(), file) == code.size();
    if (fclose(file) || !written || rename(aside.c_str(), path.c_str()))
        unlink(aside.c_str());
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static cudaKernel_t load(const std::string &code, const char *entry)
{
    cudaLibrary_t library;
    cudaKernel_t kernel = nullptr;
    if (!code.empty() &&
        cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess &&
        cudaLibraryGetKernel(&kernel, library, entry) == cudaSuccess)
        return kernel;
    cudaGetLastError();
    return nullptr;
}

static cudaKernel_t find_or_compile(const mx_cuda_device *d, const std::string &program, const char *entry)
{
    static std::once_flag once;
    int major = 0, minor = 0;
    uint64_t key[2];
    std::call_once(once, open_nvrtc);
    if (!nvrtc.version || cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->id) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->id) != cudaSuccess)
        return nullptr;
    const int architecture = major * 10 + minor;
    find_key(program, architecture, key);
    const std::string folder = cache_folder(), path = path_of(folder, key);
    cudaKernel_t kernel = folder.empty() ? nullptr : load(read_cached(path, key), entry);
    if (kernel)
        return kernel;
    const std::string code = compile(program, architecture);
    kernel = load(code, entry);
    if (kernel && !folder.empty())
        write_cached(path, key, code);
    return kernel;
}

cudaKernel_t mx_cuda_compile(const mx_cuda_device *d, const std::string &program, const char *entry)
{
    try {
        return find_or_compile(d, program, entry);
    } catch (...) { /* out of memory: callers can do without */
        return nullptr;
    }
}
