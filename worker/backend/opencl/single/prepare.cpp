// Kernel objects for the launches of short steps. They are made at the end of a load: a request
// never waits for them, and from the first step on only arguments that changed are set.

#include <algorithm>
#include <set>

#include "worker/backend/opencl/single/executor.h"
#include "worker/backend/opencl/single/loader.h"

namespace holdfast::opencl {

/// Goes through the program with one token for each of `rows` sequences, without running anything:
/// for every number of rows another kernel may multiply.
void OpenclExecutor::prepare(std::int32_t rows) {
  static constexpr std::int32_t kToken = 0, kPage = 0;
  backend::Segment segment{&kToken, 1, 0, &kPage};
  segment.wants = backend::Wants::greatest(rows <= model_.limits.logit_rows ? 1 : 0);
  backend::Batch batch;
  batch.segments.assign(static_cast<std::size_t>(rows), segment);
  batch_.plan(model_, batch);
  launcher_.begin_step();
  for (std::size_t i = 0; i < model_.ops.size(); ++i) {
    model_.queue.begin_operation(i);
    launcher_.run(model_.ops[i]);
  }
  model_.queue.end_operations();
  batch_.clear();
}

/// kModelFailed: the driver refuses an argument.
Result<void> Loader::prepare_launches() {
  if (!model_.shape.causal || model_.dense.used) return {};  // its steps are long
  const backend::Limits& l = options_.limits;
  const std::int32_t most = std::min(l.batch_segments, l.batch_tokens);
  model_.queue.prepare(true);
  std::set<std::int32_t> counts;  // of rows, for each of which another kernel may be the right one
  for (const int rows : kRowsOfMatrix) counts.insert(std::min<std::int32_t>(rows, most));
  for (const int rows : kRowsShared) counts.insert(std::min<std::int32_t>(rows, most));
  for (const std::int32_t rows : counts) to_.prepare(rows);
  model_.queue.prepare(false);
  const cl_int status = model_.queue.wait();
  if (status == CL_SUCCESS) return {};
  return refuse_load(
      Errc::kModelFailed,
      "prepare launches on " + model_.device_context->device().name + ": " + status_text(status));
}

}  // namespace holdfast::opencl
