/* Gluon for C++17: arrays and networks that free themselves, errors as exceptions.
 *
 *     auto net = gluon::Model::load("lenet-symbol.json", "data", "lenet-0000.params");
 *     gluon::Array y = net(gluon::Array::load_npy("digit.npy"));
 *     for (float value : y.to_vector<float>()) std::cout << value << '\n';
 *
 * Every object holds one reference of the C library; copies share the elements (Array::copy() does not).  Every operator
 * is available by name:  gluon::op("softmax", {y}, {{"axis", "1"}}).  A failed call throws gluon::Error with the
 * library's message.  The C functions of the headers below can be mixed in: get() returns the pointer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_HPP
#define GLUON_HPP

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__clang__) /* the headers are C: they use features that are extensions in C++ */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc99-extensions"
#elif defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
extern "C" {
#include "gluon/array.h"
#include "gluon/block.h"
#include "gluon/deploy.h"
#include "gluon/op.h"
}
#if defined(__clang__)
#pragma clang diagnostic pop
#elif defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace gluon {

/* ---- errors -------------------------------------------------------------------------------------------------- */

class Error : public std::runtime_error {
public:
    Error(mx_code code, const char *message) : std::runtime_error(message), code_(code) {}
    mx_code code() const noexcept { return code_; }

private:
    mx_code code_;
};

/* Throws the error that the library recorded, and clears it. */
[[noreturn]] inline void fail()
{
    const Error error(mx_error_code(), mx_error_message());
    mx_error_clear();
    throw error;
}
inline void check(mx_code code)
{
    if (code != MX_OK)
        fail();
}

/* ---- lifetime ------------------------------------------------------------------------------------------------ */

/* Temporaries of the C library that are created during its lifetime are released with it. */
class Scope {
public:
    Scope() : scope_(mx_scope_open()) {}
    ~Scope() { mx_scope_close(&scope_); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

private:
    mx_scope scope_;
};

/* One counted reference to an object of the library. */
template <class T> class Handle {
public:
    Handle() = default;
    /* Takes a reference of its own; NULL means a failed call and throws. */
    explicit Handle(T *object) : object_(static_cast<T *>(mx_keep(object)))
    {
        if (!object_)
            fail();
    }
    Handle(const Handle &other) : object_(static_cast<T *>(mx_keep(other.object_))) {}
    Handle(Handle &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Handle &operator=(Handle other) noexcept
    {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Handle() { mx_release(object_); }

    T *get() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }

private:
    T *object_ = nullptr;
};

/* ---- arrays -------------------------------------------------------------------------------------------------- */

using Shape = std::vector<int64_t>;

inline mx_dims dims(const Shape &shape)
{
    if (shape.size() > MX_MAX_TUPLE)
        throw Error(MX_ERR_SHAPE, "gluon::dims: too many axes");
    mx_dims d{};
    d.n = static_cast<int32_t>(shape.size());
    for (size_t i = 0; i < shape.size(); i++)
        d.d[i] = shape[i];
    return d;
}

template <class T> struct Element; /* the library's number for a C++ type */
template <> struct Element<float> { static constexpr mx_dtype dtype = MX_FLOAT32; };
template <> struct Element<double> { static constexpr mx_dtype dtype = MX_FLOAT64; };
template <> struct Element<uint8_t> { static constexpr mx_dtype dtype = MX_UINT8; };
template <> struct Element<int8_t> { static constexpr mx_dtype dtype = MX_INT8; };
template <> struct Element<int32_t> { static constexpr mx_dtype dtype = MX_INT32; };
template <> struct Element<int64_t> { static constexpr mx_dtype dtype = MX_INT64; };

class Array : public Handle<mx_array> {
public:
    using Handle::Handle;

    template <class T> static Array from(const Shape &shape, const std::vector<T> &values)
    {
        int64_t size = 1;
        for (int64_t n : shape)
            size *= n;
        if (size != static_cast<int64_t>(values.size()))
            throw Error(MX_ERR_SHAPE, "gluon::Array::from: the number of values does not match the shape");
        Scope scope;
        return Array(mx_array_from(dims(shape), Element<T>::dtype, values.data()));
    }
    static Array load_npy(const std::string &path)
    {
        Scope scope;
        return Array(mx_load_npy(path.c_str()));
    }
    void save_npy(const std::string &path) const { check(mx_save_npy(path.c_str(), get())); }
    Array copy() const
    {
        Scope scope;
        return Array(mx_array_copy(get()));
    }

    Shape shape() const
    {
        const mx_dims d = mx_shape(get());
        return d.n < 0 ? Shape() : Shape(d.d, d.d + d.n);
    }
    int64_t size() const { return mx_size(get()); }
    mx_dtype dtype() const { return mx_dtype_of(get()); }
    std::string text() const
    {
        Scope scope;
        const char *text = mx_array_text(get());
        return text ? text : (fail(), "");
    }
    /* The elements; T must be the array's type. */
    template <class T> std::vector<T> to_vector() const
    {
        if (dtype() != Element<T>::dtype)
            throw Error(MX_ERR_DTYPE, "gluon::Array::to_vector: the array has a different element type");
        std::vector<T> values(static_cast<size_t>(size()));
        check(mx_array_read(get(), values.data(), values.size() * sizeof(T)));
        return values;
    }
    double item() const
    {
        const double value = mx_item(get());
        if (mx_error_code() != MX_OK)
            fail();
        return value;
    }
};

/* ---- operators ------------------------------------------------------------------------------------------------- */

using Attributes = std::vector<std::pair<std::string, std::string>>;

inline std::vector<Array> take(mx_arrays list)
{
    if (mx_error_code() != MX_OK)
        fail();
    std::vector<Array> result;
    for (int64_t i = 0; list.n < 0 ? list.v[i] != MX_END : i < list.n; i++)
        result.emplace_back(list.v[i]);
    return result;
}

inline std::vector<mx_array *> pointers(const std::vector<Array> &arrays)
{
    std::vector<mx_array *> list;
    for (const Array &array : arrays)
        list.push_back(array ? array.get() : MX_NONE);
    return list;
}

/* Any operator by name, with attributes as text; all results. */
inline std::vector<Array> op_all(const char *name, const std::vector<Array> &inputs, const Attributes &attributes = {})
{
    Scope scope;
    std::vector<const char *> names, values;
    for (const auto &attribute : attributes) {
        names.push_back(attribute.first.c_str());
        values.push_back(attribute.second.c_str());
    }
    const std::vector<mx_array *> in = pointers(inputs);
    mx_op *found = mx_op_find(name);
    if (!found)
        fail();
    const mx_arrays list{in.data(), static_cast<int64_t>(in.size())};
    return take(mx_invoke_text(found, list, static_cast<int>(names.size()), names.data(), values.data(),
                               mx_arrays{}));
}
inline Array op(const char *name, const std::vector<Array> &inputs, const Attributes &attributes = {})
{
    return op_all(name, inputs, attributes).at(0);
}
inline Array operator+(const Array &a, const Array &b) { return op("broadcast_add", {a, b}); }
inline Array operator-(const Array &a, const Array &b) { return op("broadcast_sub", {a, b}); }
inline Array operator*(const Array &a, const Array &b) { return op("broadcast_mul", {a, b}); }
inline Array operator/(const Array &a, const Array &b) { return op("broadcast_div", {a, b}); }

/* ---- networks -------------------------------------------------------------------------------------------------- */

/* A network: one that was exported, or any block of the C library.  It can be called from several threads. */
class Model : public Handle<mx_block> {
public:
    using Handle::Handle;

    /* inputs: names of the variables that are data, separated by spaces; the others are parameters. */
    static Model load(const std::string &symbol, const std::string &inputs, const std::string &params)
    {
        Scope scope;
        return Model(mx_import(symbol.c_str(), inputs.c_str(), params.c_str()));
    }
    std::vector<Array> call(const std::vector<Array> &inputs) const
    {
        Scope scope;
        const std::vector<mx_array *> in = pointers(inputs);
        return take(mx_block_call_many(get(), mx_arrays{in.data(), static_cast<int64_t>(in.size())}));
    }
    template <class... More> Array operator()(const Array &first, const More &...more) const
    {
        return call({first, more...}).at(0);
    }
    /* Compiles the network: later calls run compiled plans. */
    Model &hybridize()
    {
        check(mx_hybridize(get()));
        return *this;
    }
};

} // namespace gluon

#endif
