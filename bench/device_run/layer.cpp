// A layer of OpenCL's loader (OPENCL_LAYERS names it) that times every launch by the device's own
// clock. When the program ends, it writes a table to the file that HOLDFAST_DEVICE_TIMES names or
// to the standard error: total time of a kernel at a grid, launches, time of one, and how long the
// device had waited before it. bench/device runs a program with it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "bench/device_run/layer_entry.h"

namespace {

constexpr cl_ulong kLongestWaitNs = 1'000'000;  // beyond it the device had no work

struct Launch {
  cl_event event;
  std::string what;
};

struct Times {
  cl_ulong launches = 0, ns = 0, waited_ns = 0;
};

std::mutex g_mutex;  // guards all that follow
std::vector<Launch> g_running;
std::map<cl_kernel, std::string> g_names;
std::map<cl_program, std::size_t> g_programs;  // numbered as they come
std::map<std::string, Times> g_times;
cl_ulong g_last_end = 0;

/// A name such as "tile.2", with the program's number: programs have kernels of the same names,
/// and a kernel may have several objects.
const std::string& name_of(cl_kernel kernel) {
  std::string& name = g_names[kernel];
  if (!name.empty()) return name;
  char text[128] = {};
  g_below->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text - 1, text, nullptr);
  cl_program program = nullptr;
  g_below->clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof(cl_program), &program, nullptr);
  const std::size_t number = g_programs.try_emplace(program, g_programs.size() + 1).first->second;
  name = std::string(text) + "." + std::to_string(number);
  return name;
}

cl_ulong clock_of(cl_event event, cl_profiling_info what) {
  cl_ulong ns = 0;
  g_below->clGetEventProfilingInfo(event, what, sizeof ns, &ns, nullptr);
  return ns;
}

/// Adds up the launches in g_running, which have ended.
void count() {
  for (const Launch& launch : g_running) {
    const cl_ulong begin = clock_of(launch.event, CL_PROFILING_COMMAND_START);
    const cl_ulong end = clock_of(launch.event, CL_PROFILING_COMMAND_END);
    g_below->clReleaseEvent(launch.event);
    if (begin == 0 || end < begin) continue;  // it failed
    Times& times = g_times[launch.what];
    ++times.launches;
    times.ns += end - begin;
    const cl_ulong waited = g_last_end != 0 && begin > g_last_end ? begin - g_last_end : 0;
    times.waited_ns += waited < kLongestWaitNs ? waited : 0;
    g_last_end = end;
  }
  g_running.clear();
}

void report() {
  const std::lock_guard lock(g_mutex);
  count();
  if (g_times.empty()) return;
  const char* path = std::getenv("HOLDFAST_DEVICE_TIMES");
  std::FILE* file = path != nullptr ? std::fopen(path, "w") : stderr;
  if (file == nullptr) return;
  using Row = std::pair<std::string, Times>;
  std::vector<Row> rows(g_times.begin(), g_times.end());
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.second.ns > b.second.ns; });
  std::fprintf(file, "%12s %9s %10s %10s  kernel and groups\n", "all ms", "launches", "one us",
               "waited us");
  for (const auto& [what, times] : rows) {
    const auto n = static_cast<double>(times.launches);
    std::fprintf(file, "%12.3f %9.0f %10.2f %10.2f  %s\n", static_cast<double>(times.ns) / 1e6, n,
                 static_cast<double>(times.ns) / 1e3 / n,
                 static_cast<double>(times.waited_ns) / 1e3 / n, what.c_str());
  }
  if (file != stderr) std::fclose(file);
}

cl_command_queue CL_API_CALL make_queue(cl_context context, cl_device_id device,
                                        cl_command_queue_properties properties, cl_int* status) {
  return g_below->clCreateCommandQueue(context, device, properties | CL_QUEUE_PROFILING_ENABLE,
                                       status);
}

cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                          const size_t* offset, const size_t* all, const size_t* group, cl_uint n,
                          const cl_event* events, cl_event* event) {
  cl_event mine = nullptr;
  const cl_int status = g_below->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, all,
                                                        group, n, events, &mine);
  if (status != CL_SUCCESS) return status;
  const std::lock_guard lock(g_mutex);
  std::string what = name_of(kernel) + " ";
  for (cl_uint d = 0; d < dimensions; ++d) {
    what += (d > 0 ? "x" : "") + std::to_string(group != nullptr ? all[d] / group[d] : all[d]);
  }
  if (event != nullptr) {
    g_below->clRetainEvent(mine);
    *event = mine;
  }
  g_running.push_back({mine, std::move(what)});
  return CL_SUCCESS;
}

cl_int CL_API_CALL finish(cl_command_queue queue) {
  const cl_int status = g_below->clFinish(queue);
  const std::lock_guard lock(g_mutex);
  count();
  return status;
}

void take_over(cl_icd_dispatch& layer) {
  layer.clCreateCommandQueue = &make_queue;
  layer.clEnqueueNDRangeKernel = &launch;
  layer.clFinish = &finish;
  std::atexit(&report);
}

}  // namespace
