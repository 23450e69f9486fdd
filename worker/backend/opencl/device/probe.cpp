#include "worker/backend/opencl/device/probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace holdfast::opencl {
namespace {

// Inline PTX is compiled only where the driver has NVIDIA's own extension: other compilers may end
// the process on foreign assembler.
constexpr char kPtxExtension[] = "cl_nv_device_attribute_query";

constexpr char kHalf[] =
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "__kernel void f(__global half* x) { x[0] = fma(x[1], x[2], x[3]); }\n";

using Numbers = std::vector<std::int32_t>;

constexpr int kItems = 64;  // of a trial's only work-group

std::int32_t dot_of(std::int32_t a, std::int32_t b) {
  std::int32_t sum = 0;
  for (int i = 0; i < 32; i += 8) {
    sum += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
  }
  return sum;
}

/// Numbers made of all bytes, those of the largest magnitude among them.
Numbers some_numbers(std::size_t n) {
  Numbers x(n);
  std::uint32_t state = 1;
  for (std::int32_t& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<std::int32_t>(state ^ state >> 13);
  }
  x[0] = static_cast<std::int32_t>(0x80807f7fu);
  return x;
}

/// The numbers that a trial's kernel gets, and those that it should leave.
struct Sums {
  Numbers given, expected;
};

Sums shuffle_sums() {
  Sums s{Numbers(2 * kItems), Numbers(2 * kItems)};
  for (int i = 0; i < kItems; ++i) s.given[static_cast<std::size_t>(i)] = (i * 37 + 11) % 101;
  std::int32_t sum = 0, largest = 0;
  for (const std::int32_t v : s.given) sum += v, largest = std::max(largest, v);
  std::fill(s.expected.begin(), s.expected.begin() + kItems, sum);
  std::fill(s.expected.begin() + kItems, s.expected.end(), largest);
  return s;
}

Sums dot_sums() {
  Sums s{some_numbers(3 * kItems), {}};
  s.expected = s.given;
  for (std::size_t i = 0; i < kItems; ++i) {
    s.given[2 * kItems + i] /= 2;
    s.expected[2 * kItems + i] = s.given[2 * kItems + i];
    s.expected[i] = dot_of(s.given[i], s.given[kItems + i]) + s.given[2 * kItems + i];
  }
  return s;
}

/// The trial of a matrix tile, divided over 32 items as kernels/dots.cl says.
Sums matrix_sums() {
  Sums s{some_numbers(7 * kItems), {}};
  for (std::size_t i = 3 * kItems; i < s.given.size(); ++i) s.given[i] /= 2;
  s.expected = s.given;
  for (std::size_t i = 0; i < kItems; ++i) {
    const std::size_t tile = i / 32 * 32, g = i % 32 / 4, t = i % 4;
    for (std::size_t j = 0; j < 4; ++j) {
      std::int32_t& sum = s.expected[3 * kItems + i * 4 + j];
      for (std::size_t k = 0; k < 4; ++k) {
        const std::int32_t a = s.given[j / 2 * kItems + tile + g * 4 + k];
        const std::int32_t b = s.given[2 * kItems + tile + (t * 2 + j % 2) * 4 + k];
        sum += dot_of(a, b);
      }
    }
  }
  return s;
}

class Trials {
 public:
  Trials(const Device& device, cl_context context, Programs& programs, const std::string& cache)
      : d_(device), context_(context), programs_(programs), cache_(cache) {}

  bool compiles(const std::string& source) const { return kernel_of(source).get() != nullptr; }
  bool passes(Trial trial, const KernelCapabilities& capabilities) const {
    const Sums sums = trial == Trial::kShuffle ? shuffle_sums()
                      : trial == Trial::kDot   ? dot_sums()
                                               : matrix_sums();
    Numbers x = sums.given;
    return run(trial_source(trial, capabilities), trial == Trial::kShuffle ? 64 : 16, x) &&
           x == sums.expected;
  }
  /// Gives 1: by the extension, 2: by PTX, 0: neither; appends what was found to `why`.
  int find(const char* what, const char* extension, Trial trial,
           int KernelCapabilities::*capability, std::string& why) const {
    why += std::string(why.empty() ? "" : "; ") + what + ": ";
    KernelCapabilities capabilities;
    if (extension != nullptr && d_.has(extension)) {
      capabilities.*capability = 1;
      const bool right = passes(trial, capabilities);
      why += std::string(extension) + (right ? "" : ", which fails its trial");
      if (right) return 1;
    } else if (d_.has(kPtxExtension)) {
      capabilities.*capability = 2;
      const bool right = passes(trial, capabilities);
      why += right ? "PTX" : "PTX fails its trial";
      if (right) return 2;
    } else {
      why += "none";
    }
    return 0;
  }

 private:
  /// The trial's kernel; empty where the compiler refuses it.
  KernelHandle kernel_of(const std::string& source) const {
    const auto program = programs_.get("of a trial", source, cache_);
    if (!program) return {};
    auto kernel = programs_.kernel(*program, "f");
    return kernel ? std::move(kernel).value() : KernelHandle();
  }

  /// Runs one work-group of kItems items over the numbers.
  bool run(const std::string& source, std::size_t items_x, Numbers& x) const {
    const Api& api = *d_.api;
    const KernelHandle kernel = kernel_of(source);
    if (kernel.get() == nullptr) return false;
    cl_int status[2] = {};
    const QueueHandle queue(api, api.clCreateCommandQueue(context_, d_.id, 0, &status[0]));
    const std::size_t bytes = x.size() * sizeof x[0];
    const MemoryHandle memory(
        api, api.clCreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &status[1]));
    if (status[0] != CL_SUCCESS || status[1] != CL_SUCCESS) return false;
    const cl_mem at = memory.get();
    const std::size_t items[] = {items_x, kItems / items_x};
    const auto well = [](cl_int done) { return done == CL_SUCCESS; };
    return well(api.clEnqueueWriteBuffer(queue.get(), at, CL_TRUE, 0, bytes, x.data(), 0, nullptr,
                                         nullptr)) &&
           well(api.clSetKernelArg(kernel.get(), 0, sizeof at, &at)) &&
           well(api.clEnqueueNDRangeKernel(queue.get(), kernel.get(), 2, nullptr, items, items, 0,
                                           nullptr, nullptr)) &&
           well(api.clEnqueueReadBuffer(queue.get(), at, CL_TRUE, 0, bytes, x.data(), 0, nullptr,
                                        nullptr));
  }

  const Device& d_;
  const cl_context context_;
  Programs& programs_;
  const std::string& cache_;
};

Result<Context> open_context(const Device& d) {
  cl_int status = CL_SUCCESS;
  Context context(*d.api, d.api->clCreateContext(nullptr, 1, &d.id, nullptr, nullptr, &status));
  if (status == CL_SUCCESS) return context;
  return Error{Errc::kModelFailed, "open " + d.name + ": " + status_text(status)};
}

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

Result<Probe> probe(const Device& d, const std::string& cache) {
  HOLDFAST_TRY(const Context context, open_context(d));
  Programs programs(d, context.get());
  const Probe found = probe_in(d, context.get(), programs, cache);
  programs.save();
  return found;
}

Probe probe_in(const Device& d, cl_context context, Programs& programs, const std::string& cache) {
  const Trials trials(d, context, programs, cache);
  Probe p;
  p.shuffle = trials.find("sub-groups", "cl_khr_subgroup_shuffle_relative", Trial::kShuffle,
                          &KernelCapabilities::shuffle, p.why);
  p.dot = trials.find("byte dot product", "cl_khr_integer_dot_product", Trial::kDot,
                      &KernelCapabilities::dot, p.why);
  p.matrix =
      trials.find("matrix units", nullptr, Trial::kMatrix, &KernelCapabilities::matrix, p.why);
  p.half = d.has("cl_khr_fp16") && trials.compiles(kHalf);
  p.why += p.half ? "; half arithmetic: cl_khr_fp16" : "; half arithmetic: none";
  p.tier = p.matrix != 0 ? 3 : p.dot != 0 ? 2 : p.shuffle != 0 ? 1 : 0;
  if (d.wide_lanes && p.tier > 1) {
    p.tier = p.shuffle != 0 ? 1 : 0;
    p.why += "; items add vectors, which is faster here than products of bytes one by one";
  }
  return p;
}

bool passes(const Device& device, Trial trial, const KernelCapabilities& capabilities) {
  const auto context = open_context(device);
  if (!context) return false;
  Programs programs(device, context->get());
  return Trials(device, context->get(), programs, "").passes(trial, capabilities);
}

KernelCapabilities capabilities_of(const Device& d, const Probe& found, int tier) {
  KernelCapabilities capabilities;
  capabilities.int8_rows = tier >= 2;
  capabilities.wide_lanes = d.wide_lanes && !capabilities.int8_rows;
  capabilities.tiles = !capabilities.wide_lanes && d.supports_tiles;
  if (d.gpu) capabilities.ahead = d.has(kPtxExtension) ? 2 : 1;
  if (tier >= 1) capabilities.shuffle = found.shuffle;
  if (tier >= 2) capabilities.dot = found.dot;
  if (tier >= 3 && d.supports_matrix) capabilities.matrix = found.matrix == 0 ? 1 : found.matrix;
  return capabilities;
}

double copy_rate(const Device& d) {
  const auto context = open_context(d);
  if (!context) return 0;
  const Api& api = *d.api;
  const std::size_t bytes = std::min<std::uint64_t>(d.gpu ? 256u << 20 : 32u << 20, d.max_alloc);
  cl_int status[3] = {};
  const QueueHandle queue(api, api.clCreateCommandQueue(context->get(), d.id, 0, &status[0]));
  const auto buffer = [&](int i) {
    return MemoryHandle(
        api, api.clCreateBuffer(context->get(), CL_MEM_READ_WRITE, bytes, nullptr, &status[i]));
  };
  const MemoryHandle from = buffer(1), to = buffer(2);
  if (status[0] != CL_SUCCESS || status[1] != CL_SUCCESS || status[2] != CL_SUCCESS) return 0;
  const cl_uint zero = 0;
  api.clEnqueueFillBuffer(queue.get(), from.get(), &zero, sizeof zero, 0, bytes, 0, nullptr,
                          nullptr);
  double best = 0;
  for (int i = 0; i < 4; ++i) {  // the first copy makes the driver allocate the pages
    const double start = seconds();
    const cl_int done = api.clEnqueueCopyBuffer(queue.get(), from.get(), to.get(), 0, 0, bytes, 0,
                                                nullptr, nullptr);
    if (done != CL_SUCCESS || api.clFinish(queue.get()) != CL_SUCCESS) return 0;
    best = std::max(best, 2 * static_cast<double>(bytes) / (seconds() - start) / 1e9);
  }
  return best;
}

}  // namespace holdfast::opencl
