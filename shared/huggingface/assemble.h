#pragma once
// Converts the tensors of a folder's files to GGUF's form: names, shapes, order of rows, experts in
// one tensor. Internal to shared/huggingface.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/gguf/made.h"
#include "shared/huggingface/families.h"
#include "shared/huggingface/folder.h"
#include "shared/huggingface/layer_tensors.h"
#include "shared/huggingface/safetensors.h"

namespace holdfast::huggingface {

/// The tensors, and the bytes of those that no file has in this form. Moving it does not move the
/// `bytes` of the tensors.
struct Assembled {
  std::vector<gguf::TensorInfo> tensors;
  std::vector<std::vector<std::byte>> vectors;
  std::vector<std::unique_ptr<const gguf::MadeBytes>> made;
  std::vector<std::string> notes;  // the weights' format, tensors that were left out
};

/// Writes all elements of a plain tensor as float32.
void floats_of(const StoredTensor& stored, std::byte* out);

/// Reorders the rows of a matrix in heads from halves to pairs. `rows` is a multiple of 2 x heads
/// (not checked).
void permute_rows(ByteSpan data, std::uint64_t rows, std::uint64_t heads, std::byte* out);

/// Takes the tensors of all files, then returns the whole. A tensor in another form than its file's
/// is made when it is held, from the files' mappings, which must outlive the result; with
/// Contents::kShapes such a tensor has a size and no bytes. Errors contain `where` and name the
/// folder's tensor, what it is and what was expected.
class Assembler {
 public:
  Assembler(std::string where, const Family& family, const Sizes& sizes, Contents contents)
      : where_(std::move(where)), family_(family), sizes_(sizes), contents_(contents) {}

  /// Takes one tensor. kUnsupported: a tensor or a type that the family does not have.
  Result<void> take(const std::string& name, const StoredTensor& stored);
  /// Returns true if take() leaves a tensor of that name out, whatever it is; it then counts.
  bool leaves_out(const std::string& name);
  /// Returns true if the family has a tensor of that name.
  bool has(const std::string& name) const { return !to_gguf(family_, name).empty(); }
  /// Notes that `n` tensors are left out, described by `what`.
  void leave_out(const std::string& what, std::size_t n) { left_out_[what] += n; }
  /// Adds a line to the notes for users.
  void add_note(std::string note) { out_.notes.push_back(std::move(note)); }
  /// Returns the result. kFileInvalid: tensors that are missing, duplicate or of another shape than
  /// similar ones.
  Result<Assembled> finish();

 private:
  struct SourceTensor {
    std::string name;  // in the folder
    StoredTensor stored;
    Named named;
  };
  using SourceTensors =
      std::map<std::int64_t, SourceTensor>;  // by expert; -1 for a single one of all experts

  Error invalid(const std::string& tensor, const std::string& why) const;
  Result<void> check(const std::string& name, const StoredTensor& stored, bool as_bytes) const;
  Result<void> add_source(const std::string& name, const StoredTensor& stored, const Named& named,
                          bool is_scale);
  Result<void> whole(const std::string& name, const SourceTensor& source);
  Result<void> in_order(const SourceTensor& source, gguf::TensorInfo info);
  void widen_vector(const StoredTensor& stored, bool plus_one, gguf::TensorInfo& info);
  Result<void> stacked(const std::string& name, const SourceTensors& sources);
  Result<std::uint64_t> heads_of(const SourceTensor& source) const;
  Result<void> permuted(const SourceTensor& source, gguf::TensorInfo info);
  // assemble_states.cpp
  struct StateRows {
    std::uint64_t heads, groups;
    std::uint64_t before = 0;  // rows of queries and keys
    std::uint64_t each = 1;    // rows of a head
    std::uint64_t from(std::uint64_t i) const;
  };
  Result<StateRows> state_rows(const SourceTensor& source) const;
  Result<void> of_states(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> state_floats(const SourceTensor& source, gguf::TensorInfo info,
                            const StateRows& rows);
  Result<void> turned(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> part_of(const SourceTensor& source, gguf::TensorInfo info);
  // assemble_coded.cpp
  Result<void> coded(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> coded_floats(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> coded_heads(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> coded_part(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> coded_states(const SourceTensor& source, gguf::TensorInfo info);
  // assemble_experts.cpp
  Result<void> mxfp4(const std::string& name, const SourceTensor& source);
  Result<void> turned_each(const SourceTensor& source, gguf::TensorInfo info);
  Result<void> biases(const SourceTensor& source, gguf::TensorInfo info);
  Error unlike(const SourceTensor& source, const char* expected) const;
  Result<void> add_made(gguf::TensorInfo info, std::uint64_t bytes, gguf::MadeBytes::Make make);
  void add_factors(const char* name, const std::vector<float>& factors);

  std::string where_;
  const Family& family_;
  const Sizes& sizes_;
  Contents contents_;
  std::map<std::string, SourceTensors> sources_;  // by GGUF's name
  std::map<std::string, SourceTensor> scales_;    // of those in MXFP4, by the same name
  std::map<std::string, std::size_t> left_out_;
  Assembled out_;
};

}  // namespace holdfast::huggingface
