#pragma once
// A load in progress: it fills a new executor.

#include <functional>
#include <vector>

#include "worker/backend/opencl/single/executor.h"
#include "worker/backend/opencl/single/rows_part.h"

namespace holdfast::opencl {

/// An error that begins with "load opencl: ".
inline Error refuse_load(Errc code, const std::string& cause) {
  return {code, "load opencl: " + cause};
}

/// Fills one executor. Not thread-safe.
class Loader {
 public:
  /// Loads an executor on an open device; the options have been checked. The program may be a run
  /// of layers, with or without the embedding and the logits.
  static Result<std::unique_ptr<OpenclExecutor>> open(std::shared_ptr<DeviceContext> device_context,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);
  /// The same for one device of a tensor-parallel load.
  static Result<std::unique_ptr<OpenclExecutor>> open(std::shared_ptr<DeviceContext> device_context,
                                                      const RowsPart& part,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);
  /// Bytes that open() would take of the device; allocates nothing. Errors of planning weights.
  static Result<std::uint64_t> measure(std::shared_ptr<DeviceContext> device_context,
                                       const model::Program& program,
                                       const backend::LoadOptions& options, cpu::KvType kv_type);

 private:
  Loader(const model::Program& program, const RowsPart* part, const backend::LoadOptions& options,
         OpenclExecutor& to)
      : program_(program), part_(part), options_(options), to_(to), model_(to.model_) {}
  /// Plans all memory without allocating it; then DeviceModel::bytes_required is known.
  Result<void> plan_memory();
  /// Plans all memory, compares the sum with what the device has free, and only then allocates,
  /// builds and uploads.
  Result<void> load();

  struct ScratchBuffer {  // a buffer of scratch
    Buffer* to;
    std::uint64_t bytes;
    const char* what;
  };
  struct RequiredKernel {
    std::string name;
    KernelHandle* to;
  };

  // device_ops.cpp: operations with the offsets of their weights.
  Result<void> add_op(const model::Op& op);
  Result<void> add_weights(const model::Op& op, DeviceOp& out);
  Result<void> add_norm(const model::Op& op, DeviceOp& out);
  Result<void> add_position_embeddings(const model::Op& op, DeviceOp& out);
  Result<void> add_qkv(const model::Op& op, DeviceOp& out);
  Result<void> add_norm_delta(const model::Op& op, DeviceOp& out);
  Result<void> add_delta(const model::Op& op, DeviceOp& out);
  Result<void> add_gate(model::WeightRef& q, DeviceOp& out);
  void link();
  static void link_norm(DeviceOp& from, const DeviceOp& to);
  Result<void> add_product(const model::WeightRef& w, DeviceOp& out);

  // load.cpp: memory and kernels.
  void reserve_scratch_rows(Rows& rows, std::int64_t n, std::int64_t columns, const char* what);
  void reserve_scratch(Buffer& buffer, std::int64_t words, const char* what);
  void measure_scratch();
  void measure_attention_partials();
  void measure_experts(std::int64_t batch, std::int64_t width);
  void measure_states();
  void measure_kv();
  void count_layers();
  std::int64_t table_words() const;
  Result<void> take_memory();
  Result<void> make_kernels();
  Result<void> make_product_kernels(cpu::Format format);
  Result<void> make_concat_kernels(cpu::Format first, cpu::Format second);
  Result<void> make(const std::string& what, const std::string& source,
                    const std::vector<RequiredKernel>& kernels);
  Result<void> fill_rope_tables();
  std::vector<float> make_rope_table(const std::vector<double>& frequency,
                                     const std::function<double(std::int64_t)>& magnitude_of) const;
  void reserve_host();

  // inputs.cpp: inputs of a step, and its results.
  void measure_inputs();
  Result<void> divide_inputs();
  Result<void> take_host();
  // dense.cpp
  Result<void> measure_dense();
  Result<void> make_dense_kernels();
  // prepare.cpp
  Result<void> prepare_launches();

  const model::Program& program_;
  const RowsPart* part_;  // null: all rows
  const backend::LoadOptions& options_;
  OpenclExecutor& to_;
  DeviceModel& model_;
  const gguf::TensorInfo* embedding_ = nullptr;
  std::vector<ScratchBuffer> scratch_buffers_;
  std::int32_t first_layer_ = 0, layers_ = 0;
  std::size_t kv_layers_ = 0;
  std::uint64_t kv_bytes_ = 0;
};

}  // namespace holdfast::opencl
