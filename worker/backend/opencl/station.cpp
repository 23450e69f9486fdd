#include "worker/backend/opencl/station.h"

#include <map>
#include <mutex>
#include <utility>

namespace holdfast::opencl {
namespace {

std::mutex g_mutex;
std::map<std::pair<const Api*, cl_device_id>, std::weak_ptr<Station>> g_open;

}  // namespace

Result<std::shared_ptr<Station>> Station::open(const Device& d) {
  const std::lock_guard lock(g_mutex);
  std::weak_ptr<Station>& place = g_open[{d.api, d.id}];
  if (auto open = place.lock()) return open;
  cl_int status = CL_SUCCESS;
  Context context(*d.api, d.api->clCreateContext(nullptr, 1, &d.id, nullptr, nullptr, &status));
  if (status != CL_SUCCESS) {
    return Error{Errc::kModelFailed, "open " + d.name + ": " + status_text(status)};
  }
  std::shared_ptr<Station> station(new Station(d, std::move(context)));
  place = station;
  return station;
}

Result<QueueHandle> Station::make_queue() const {
  cl_int status = CL_SUCCESS;
  QueueHandle queue(*device_.api,
                    device_.api->clCreateCommandQueue(context_.get(), device_.id, 0, &status));
  if (status == CL_SUCCESS) return queue;
  return Error{Errc::kModelFailed, "open a queue on " + device_.name + ": " + status_text(status)};
}

}  // namespace holdfast::opencl
