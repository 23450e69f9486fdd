#pragma once
// A load under way: fills a fresh executor.

#include <functional>
#include <vector>

#include "worker/backend/opencl/executor.h"
#include "worker/backend/opencl/rows_part.h"

namespace holdfast::opencl {

inline Error refuse_load(Errc code, const std::string& cause) {
  return {code, "load opencl: " + cause};
}

class Loader {
 public:
  /// A loaded executor on an open device; the options have been checked. The program may be a run
  /// of layers, with the embedding and the logits or without them.
  static Result<std::unique_ptr<OpenclExecutor>> open(std::shared_ptr<Station> station,
                                                      const model::Program& program,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);
  /// The same of a device's rows of every matrix.
  static Result<std::unique_ptr<OpenclExecutor>> open(std::shared_ptr<Station> station,
                                                      const RowsPart& part,
                                                      const backend::LoadOptions& options,
                                                      cpu::KvType kv_type);
  /// The bytes that open() would take of the device; it takes nothing. Errors of placing weights.
  static Result<std::uint64_t> measure(std::shared_ptr<Station> station,
                                       const model::Program& program,
                                       const backend::LoadOptions& options, cpu::KvType kv_type);

 private:
  Loader(const model::Program& program, const RowsPart* part, const backend::LoadOptions& options,
         OpenclExecutor& to)
      : program_(program), part_(part), options_(options), to_(to), shape_(program.shape) {}
  /// Places everything without taking memory: OpenclExecutor::bytes_wanted is known then.
  Result<void> place_all();
  /// Places everything, compares the sum with what the device has free, and only then takes memory,
  /// builds and uploads.
  Result<void> load();

  struct Wish {  // a buffer of scratch
    Buffer* to;
    std::uint64_t bytes;
    const char* what;
  };
  struct WantedKernel {
    std::string name;
    KernelHandle* to;
  };

  // place.cpp: operations with the places of their weights.
  Result<void> place(const model::Op& op);
  Result<void> place_weights(const model::Op& op, DeviceOp& out);
  Result<void> place_norm(const model::Op& op, DeviceOp& out);
  Result<void> place_embed_more(const model::Op& op, DeviceOp& out);
  Result<void> place_qkv(const model::Op& op, DeviceOp& out);
  Result<void> place_norm_delta(const model::Op& op, DeviceOp& out);
  Result<void> place_delta(const model::Op& op, DeviceOp& out);
  Result<void> place_gate(model::WeightRef& q, DeviceOp& out);
  void link();
  static void link_norm(DeviceOp& from, const DeviceOp& to);
  Result<void> add_product(const model::WeightRef& w, DeviceOp& out);

  // load.cpp: memory and kernels.
  void wish_rows(Rows& rows, std::int64_t n, std::int64_t columns, const char* what);
  void wish(Buffer& buffer, std::int64_t words, const char* what);
  void measure_scratch();
  void measure_apart();
  void measure_experts(std::int64_t batch, std::int64_t width);
  void measure_states();
  void measure_kv();
  void count_layers();
  std::int64_t table_words() const;
  Result<void> take_memory();
  Result<void> make_kernels();
  Result<void> make_product_kernels(cpu::Format format);
  Result<void> make_beside_kernels(cpu::Format first, cpu::Format second);
  Result<void> make(const std::string& what, const std::string& source,
                    const std::vector<WantedKernel>& kernels);
  Result<void> fill_turns();
  std::vector<float> turn_table(const std::vector<double>& frequency,
                                const std::function<double(std::int64_t)>& magnitude_of) const;
  void reserve_host();

  const model::Program& program_;
  const RowsPart* part_;  // or null: all rows
  const backend::LoadOptions& options_;
  OpenclExecutor& to_;
  const plan::ModelShape& shape_;
  const gguf::TensorInfo* embedding_ = nullptr;
  std::vector<Wish> wishes_;
  std::int32_t first_layer_ = 0, layers_ = 0;
  std::size_t kv_layers_ = 0;
  std::uint64_t kv_bytes_ = 0;
};

}  // namespace holdfast::opencl
