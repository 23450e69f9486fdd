#include "worker/backend/opencl/probe.h"

#include <algorithm>
#include <chrono>

namespace holdfast::opencl {
namespace {

// Inline PTX is compiled only where the driver has NVIDIA's own extension: other compilers may end
// the process on assembler that is not theirs.
constexpr char kPtxExtension[] = "cl_nv_device_attribute_query";

constexpr char kPtxShuffle[] =
    "__kernel void f(__global uint* x) {\n"
    "  uint a = x[get_global_id(0)], b;\n"
    "  asm volatile(\"shfl.sync.bfly.b32 %0, %1, 1, 31, 0xffffffff;\" : \"=r\"(b) : \"r\"(a));\n"
    "  x[get_global_id(0)] = b;\n"
    "}\n";
constexpr char kPtxDot[] =
    "__kernel void f(__global int* x) {\n"
    "  int c;\n"
    "  asm(\"dp4a.s32.s32 %0, %1, %2, %3;\" : \"=r\"(c) : \"r\"(x[0]), \"r\"(x[1]), \"r\"(x[2]));\n"
    "  x[0] = c;\n"
    "}\n";
constexpr char kPtxMatrix[] =
    "__kernel void f(__global int* x) {\n"
    "  int a, b, c, d;\n"
    "  asm volatile(\"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, \"\n"
    "    \"{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};\"\n"
    "    : \"=r\"(a), \"=r\"(b), \"=r\"(c), \"=r\"(d) : \"r\"(x[0]), \"r\"(x[1]), \"r\"(x[2]),\n"
    "      \"r\"(x[3]), \"r\"(x[4]), \"r\"(x[5]), \"r\"(x[6]), \"r\"(x[7]), \"r\"(x[8]),\n"
    "      \"r\"(x[9]));\n"
    "  x[0] = a + b + c + d;\n"
    "}\n";
constexpr char kHalf[] =
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    "__kernel void f(__global half* x) { x[0] = fma(x[1], x[2], x[3]); }\n";

class Trial {
 public:
  Trial(const Device& device, const Context& context) : d_(device), context_(context) {}

  bool compiles(const char* source) const {
    cl_int status = CL_SUCCESS;
    const ProgramHandle program(
        *d_.api, d_.api->clCreateProgramWithSource(context_.get(), 1, &source, nullptr, &status));
    if (status != CL_SUCCESS) return false;
    if (d_.api->clBuildProgram(program.get(), 1, &d_.id, "", nullptr, nullptr) != CL_SUCCESS) {
      return false;
    }
    const KernelHandle kernel(*d_.api, d_.api->clCreateKernel(program.get(), "f", &status));
    return status == CL_SUCCESS;
  }
  /// Adds "what: how" to the text and says whether it was found.
  bool either(const char* what, std::initializer_list<const char*> extensions, const char* ptx,
              std::string& why) const {
    why += std::string(why.empty() ? "" : "; ") + what + ": ";
    for (const char* extension : extensions) {
      if (d_.has(extension)) return why += extension, true;
    }
    if (ptx != nullptr && d_.has(kPtxExtension)) {
      const bool works = compiles(ptx);
      why += works ? "PTX compiles" : "none, PTX does not compile";
      return works;
    }
    why += "none";
    return false;
  }

 private:
  const Device& d_;
  const Context& context_;
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

Result<Probe> probe(const Device& d) {
  HF_TRY(const Context context, open_context(d));
  const Trial trial(d, context);
  Probe p;
  const bool groups =
      trial.either("sub-groups", {"cl_khr_subgroups", "cl_intel_subgroups"}, kPtxShuffle, p.why);
  const bool dot = trial.either("byte dot product", {"cl_khr_integer_dot_product"}, kPtxDot, p.why);
  const bool matrix = trial.either("matrix units", {"cl_intel_subgroup_matrix_multiply_accumulate"},
                                   groups && dot ? kPtxMatrix : nullptr, p.why);
  p.half = d.has("cl_khr_fp16") && trial.compiles(kHalf);
  p.why += p.half ? "; half arithmetic: cl_khr_fp16" : "; half arithmetic: none";
  p.tier = !groups ? 0 : !dot ? 1 : !matrix ? 2 : 3;
  return p;
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
  for (int i = 0; i < 4; ++i) {  // the first one makes the pages real
    const double start = seconds();
    const cl_int done = api.clEnqueueCopyBuffer(queue.get(), from.get(), to.get(), 0, 0, bytes, 0,
                                                nullptr, nullptr);
    if (done != CL_SUCCESS || api.clFinish(queue.get()) != CL_SUCCESS) return 0;
    best = std::max(best, 2 * static_cast<double>(bytes) / (seconds() - start) / 1e9);
  }
  return best;
}

}  // namespace holdfast::opencl
