// Plain kernels, one for each kind of operator. A thread computes an element, or a block reduces a
// row.

#include <torch/extension.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr int THREADS = 128;
constexpr int DIMENSIONS = 6;

int blocks_for(int64_t numbers) { return static_cast<int>((numbers + THREADS - 1) / THREADS); }

// Each row is the name of a function and its value. The macros below make an enum, a table for the
// host and a switch for the device of the rows.
#define UNARY(ROW)                                                                        \
    ROW(relu, x < 0.0f ? 0.0f : x)                                                        \
    ROW(leaky_relu, x > 0.0f ? x : p * x)                                                 \
    ROW(sigmoid, 1.0f / (1.0f + expf(-x)))                                                \
    ROW(tanh, tanhf(x))                                                                   \
    ROW(silu, x / (1.0f + expf(-x)))                                                      \
    ROW(gelu, 0.5f * x * (1.0f + erff(x * 0.70710678f)))                                  \
    ROW(gelu_tanh, 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))))  \
    ROW(selu, 1.05070099f * (x > 0.0f ? x : 1.67326324f * (expf(x) - 1.0f)))              \
    ROW(elu, x > 0.0f ? x : p * (expf(x) - 1.0f))                                         \
    ROW(hardsigmoid, fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f)                           \
    ROW(softplus, p * x > q ? x : log1pf(expf(p * x)) / p)                                \
    ROW(softsign, x / (1.0f + fabsf(x)))                                                  \
    ROW(clamp, x < p ? p : x > q ? q : x)                                                 \
    ROW(huber, fabsf(x) < p ? 0.5f * x * x : p * (fabsf(x) - 0.5f * p))                   \
    ROW(abs, fabsf(x))                                                                    \
    ROW(neg, -x)                                                                          \
    ROW(exp, expf(x))                                                                     \
    ROW(log, logf(x))                                                                     \
    ROW(sqrt, sqrtf(x))

#define BINARY(ROW)           \
    ROW(add, x + y)           \
    ROW(sub, x - y)           \
    ROW(mul, x * y)           \
    ROW(div, x / y)           \
    ROW(maximum, fmaxf(x, y)) \
    ROW(minimum, fminf(x, y)) \
    ROW(pow, y == 2.0f ? x * x : powf(x, y))

#define REDUCTION(ROW)           \
    ROW(sum, 0.0f, a + b)        \
    ROW(prod, 1.0f, a * b)       \
    ROW(amax, -INFINITY, a > b || isnan(a) ? a : b) \
    ROW(amin, INFINITY, a < b || isnan(a) ? a : b)

#define NAME(name, ...) name##_,
#define KNOWN(name, ...) {#name, name##_},
enum Unary { UNARY(NAME) };
enum Binary { BINARY(NAME) };
enum Reduction { REDUCTION(NAME) };
const std::map<std::string, int> UNARIES = {UNARY(KNOWN)};
const std::map<std::string, int> BINARIES = {BINARY(KNOWN)};
const std::map<std::string, int> REDUCTIONS = {REDUCTION(KNOWN)};

#define RESULT(name, value) \
    case name##_:           \
        return value;
#define START(name, start, value) \
    case name##_:                 \
        return start;
#define BOTH(name, start, value) \
    case name##_:                \
        return value;

__device__ float of_one(int which, float x, float p, float q) {
    switch (which) { UNARY(RESULT) }
    return NAN;
}

__device__ float of_two(int which, float x, float y) {
    switch (which) { BINARY(RESULT) }
    return NAN;
}

__device__ float start_of(int which) {
    switch (which) { REDUCTION(START) }
    return NAN;
}

__device__ float joined(int which, float a, float b) {
    switch (which) { REDUCTION(BOTH) }
    return NAN;
}

__global__ void unary_kernel(
    const float* x, float* out, int64_t numbers, int which, float p, float q) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < numbers) out[i] = of_one(which, x[i], p, q);
}

// The places of a result's numbers in its operands. A broadcast dimension has stride 0.
struct Places {
    int64_t size[DIMENSIONS], x[DIMENSIONS], y[DIMENSIONS];
};

__global__ void binary_kernel(
    const float* x, const float* y, float* out, int64_t numbers, Places places, int which) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= numbers) return;
    int64_t rest = i, in_x = 0, in_y = 0;
    for (int d = DIMENSIONS - 1; d >= 0; --d) {
        const int64_t place = rest % places.size[d];
        rest /= places.size[d];
        in_x += place * places.x[d];
        in_y += place * places.y[d];
    }
    out[i] = of_two(which, x[in_x], y[in_y]);
}

__global__ void reduce_kernel(const float* x, float* out, int64_t columns, int which) {
    __shared__ float parts[THREADS];
    const float* row = x + static_cast<int64_t>(blockIdx.x) * columns;
    float all = start_of(which);
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) all = joined(which, all, row[i]);
    parts[threadIdx.x] = all;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            parts[threadIdx.x] = joined(which, parts[threadIdx.x], parts[threadIdx.x + half]);
        }
    }
    if (threadIdx.x == 0) out[blockIdx.x] = parts[0];
}

// Finds the first place of a row's largest number, or of its least.
__global__ void place_kernel(
    const float* x, int64_t* out, int64_t rows, int64_t columns, bool of_largest) {
    const int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* row = x + r * columns;
    int64_t found = 0;
    for (int64_t i = 1; i < columns; ++i) {
        if (of_largest ? row[i] > row[found] : row[i] < row[found]) found = i;
    }
    out[r] = found;
}

__global__ void scan_kernel(const float* x, float* out, int64_t rows, int64_t columns, int which) {
    const int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float all = start_of(which);
    for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
        all = joined(which, all, x[i]);
        out[i] = all;
    }
}

__global__ void pick_kernel(
    const float* x, const int64_t* places, float* out, int64_t rows, int64_t columns) {
    const int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r < rows) out[r] = x[r * columns + places[r]];
}

struct Strides {
    int64_t batch, row, column;
};

__global__ void matmul_kernel(
    const float* a, const float* b, float* out, int64_t numbers, int64_t rows, int64_t columns,
    int64_t terms, Strides of_a, Strides of_b) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= numbers) return;
    const int64_t column = i % columns, row = i / columns % rows, batch = i / columns / rows;
    a += batch * of_a.batch + row * of_a.row;
    b += batch * of_b.batch + column * of_b.column;
    float sum = 0.0f;
    for (int64_t k = 0; k < terms; ++k) sum += a[k * of_a.column] * b[k * of_b.row];
    out[i] = sum;
}

// A window over three dimensions: depth, height and width.
struct Window {
    int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
};

__device__ void places_of(int64_t i, const Window& w, int64_t place[3], int64_t* row) {
    for (int d = 2; d >= 0; --d) {
        place[d] = i % w.out[d];
        i /= w.out[d];
    }
    *row = i;
}

// Returns where a tap of the window reads along a dimension, or -1 if it reads nothing.
__device__ int64_t read_at(const Window& w, int d, int64_t place, int tap, bool transposed) {
    if (!transposed) {
        const int64_t at = place * w.stride[d] - w.padding[d] + tap * w.dilation[d];
        return at >= 0 && at < w.in[d] ? at : -1;
    }
    const int64_t shifted = place + w.padding[d] - tap * w.dilation[d];
    const int64_t at = shifted / w.stride[d];
    return shifted >= 0 && shifted % w.stride[d] == 0 && at < w.in[d] ? at : -1;
}

__global__ void convolution_kernel(
    const float* x, const float* weight, const float* bias, float* out, int64_t numbers,
    int in_channels, int out_channels, int groups, Window w, bool transposed) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= numbers) return;
    int64_t place[3];
    int64_t row;
    places_of(i, w, place, &row);
    const int channel = static_cast<int>(row % out_channels);
    const int ins = in_channels / groups, outs = out_channels / groups;
    const int group = channel / outs;
    const int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const int64_t plane = w.in[0] * w.in[1] * w.in[2];
    x += (row / out_channels * in_channels + group * ins) * plane;
    // A convolution has its weight by output channels, a transposed one by input channels.
    weight += transposed ? (static_cast<int64_t>(group) * ins * outs + channel % outs) * taps
                         : static_cast<int64_t>(channel) * ins * taps;
    const int64_t next = transposed ? outs * taps : taps;
    float sum = bias ? bias[channel] : 0.0f;
    for (int a = 0; a < w.kernel[0]; ++a) {
        const int64_t in_a = read_at(w, 0, place[0], a, transposed);
        if (in_a < 0) continue;
        for (int b = 0; b < w.kernel[1]; ++b) {
            const int64_t in_b = read_at(w, 1, place[1], b, transposed);
            if (in_b < 0) continue;
            for (int c = 0; c < w.kernel[2]; ++c) {
                const int64_t in_c = read_at(w, 2, place[2], c, transposed);
                if (in_c < 0) continue;
                const float* from = x + (in_a * w.in[1] + in_b) * w.in[2] + in_c;
                const float* by = weight + (a * w.kernel[1] + b) * w.kernel[2] + c;
                for (int k = 0; k < ins; ++k) sum += from[k * plane] * by[k * next];
            }
        }
    }
    out[i] = sum;
}

__global__ void pool_kernel(
    const float* x, float* out, int64_t numbers, Window w, int which, bool is_mean, float divisor) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= numbers) return;
    int64_t place[3];
    int64_t row;
    places_of(i, w, place, &row);
    x += row * w.in[0] * w.in[1] * w.in[2];
    float all = start_of(which);
    for (int a = 0; a < w.kernel[0]; ++a) {
        const int64_t in_a = read_at(w, 0, place[0], a, false);
        if (in_a < 0) continue;
        for (int b = 0; b < w.kernel[1]; ++b) {
            const int64_t in_b = read_at(w, 1, place[1], b, false);
            if (in_b < 0) continue;
            for (int c = 0; c < w.kernel[2]; ++c) {
                const int64_t in_c = read_at(w, 2, place[2], c, false);
                if (in_c < 0) continue;
                all = joined(which, all, x[(in_a * w.in[1] + in_b) * w.in[2] + in_c]);
            }
        }
    }
    out[i] = is_mean ? all / divisor : all;
}

using Sizes = std::vector<int64_t>;

Window window(const torch::Tensor& x, const Sizes& out, const Sizes& kernel, const Sizes& stride,
              const Sizes& padding, const Sizes& dilation) {
    Window w;
    for (int d = 0; d < 3; ++d) {
        w.in[d] = x.size(d - 3);
        w.out[d] = out[d];
        w.kernel[d] = kernel[d];
        w.stride[d] = stride[d];
        w.padding[d] = padding[d];
        w.dilation[d] = dilation[d];
    }
    return w;
}

}  // namespace

// Computes a function of each number of a contiguous tensor.
torch::Tensor unary(torch::Tensor x, std::string name, double p, double q) {
    auto out = torch::empty_like(x);
    if (x.numel()) {
        unary_kernel<<<blocks_for(x.numel()), THREADS>>>(
            x.data_ptr<float>(), out.data_ptr<float>(), x.numel(), UNARIES.at(name), p, q);
    }
    return out;
}

// Computes a function of two operands that are broadcast to one shape of up to six dimensions.
torch::Tensor binary(torch::Tensor x, torch::Tensor y, std::string name) {
    auto out = torch::empty(x.sizes(), x.options());
    if (!out.numel()) return out;
    Places places;
    for (int d = 0; d < DIMENSIONS; ++d) {
        const int64_t from = d - DIMENSIONS + x.dim();
        places.size[d] = from < 0 ? 1 : x.size(from);
        places.x[d] = from < 0 ? 0 : x.stride(from);
        places.y[d] = from < 0 ? 0 : y.stride(from);
    }
    binary_kernel<<<blocks_for(out.numel()), THREADS>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), out.numel(), places,
        BINARIES.at(name));
    return out;
}

// Reduces each row of (rows, columns) to a number.
torch::Tensor reduce(torch::Tensor x, std::string name) {
    auto out = torch::empty({x.size(0)}, x.options());
    if (x.size(0)) {
        const int threads = x.size(1) > 32 ? THREADS : 32;
        reduce_kernel<<<x.size(0), threads>>>(
            x.data_ptr<float>(), out.data_ptr<float>(), x.size(1), REDUCTIONS.at(name));
    }
    return out;
}

torch::Tensor place(torch::Tensor x, bool of_largest) {
    auto out = torch::empty({x.size(0)}, x.options().dtype(torch::kInt64));
    if (x.size(0)) {
        place_kernel<<<blocks_for(x.size(0)), THREADS>>>(
            x.data_ptr<float>(), out.data_ptr<int64_t>(), x.size(0), x.size(1), of_largest);
    }
    return out;
}

torch::Tensor scan(torch::Tensor x, std::string name) {
    auto out = torch::empty_like(x);
    if (x.numel()) {
        scan_kernel<<<blocks_for(x.size(0)), THREADS>>>(
            x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1), REDUCTIONS.at(name));
    }
    return out;
}

// Picks from each row of (rows, columns) the number at a place.
torch::Tensor pick(torch::Tensor x, torch::Tensor places) {
    auto out = torch::empty({x.size(0)}, x.options());
    pick_kernel<<<blocks_for(x.size(0)), THREADS>>>(
        x.data_ptr<float>(), places.data_ptr<int64_t>(), out.data_ptr<float>(), x.size(0), x.size(1));
    return out;
}

// Multiplies (batch, rows, terms) by (batch, terms, columns), with any strides.
torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    auto out = torch::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    if (out.numel()) {
        matmul_kernel<<<blocks_for(out.numel()), THREADS>>>(
            a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), out.numel(), a.size(1),
            b.size(2), a.size(2), Strides{a.stride(0), a.stride(1), a.stride(2)},
            Strides{b.stride(0), b.stride(1), b.stride(2)});
    }
    return out;
}

// Computes a convolution of contiguous tensors (batch, channels, depth, height, width). `out_sizes`
// are the last three sizes of the result.
torch::Tensor convolution(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, Sizes out_sizes,
    Sizes stride, Sizes padding, Sizes dilation, int64_t groups, bool transposed) {
    const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
    auto out = torch::empty(
        {x.size(0), channels, out_sizes[0], out_sizes[1], out_sizes[2]}, x.options());
    const Sizes kernel = {weight.size(2), weight.size(3), weight.size(4)};
    if (out.numel()) {
        convolution_kernel<<<blocks_for(out.numel()), THREADS>>>(
            x.data_ptr<float>(), weight.data_ptr<float>(),
            bias ? bias->data_ptr<float>() : nullptr, out.data_ptr<float>(), out.numel(),
            static_cast<int>(x.size(1)), static_cast<int>(channels), static_cast<int>(groups),
            window(x, out_sizes, kernel, stride, padding, dilation), transposed);
    }
    return out;
}

torch::Tensor pool(
    torch::Tensor x, std::string name, Sizes out_sizes, Sizes kernel, Sizes stride, Sizes padding,
    Sizes dilation, bool is_mean) {
    auto out = torch::empty(
        {x.size(0), x.size(1), out_sizes[0], out_sizes[1], out_sizes[2]}, x.options());
    if (out.numel()) {
        pool_kernel<<<blocks_for(out.numel()), THREADS>>>(
            x.data_ptr<float>(), out.data_ptr<float>(), out.numel(),
            window(x, out_sizes, kernel, stride, padding, dilation), REDUCTIONS.at(name), is_mean,
            static_cast<float>(kernel[0] * kernel[1] * kernel[2]));
    }
    return out;
}
