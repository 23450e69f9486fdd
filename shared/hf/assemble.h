#pragma once
// Tensors of a folder's files as GGUF has them: names, shapes, order of rows, experts together.
// Internal to shared/hf.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/gguf/made.h"
#include "shared/hf/families.h"
#include "shared/hf/folder.h"
#include "shared/hf/safetensors.h"

namespace holdfast::hf {

/// The tensors, and the bytes of those that lie in no file as they are. Moves leave `bytes` of the
/// tensors where they are.
struct Assembled {
  std::vector<gguf::TensorInfo> tensors;
  std::vector<std::vector<std::byte>> vectors;
  std::vector<std::unique_ptr<const gguf::MadeBytes>> made;
  std::vector<std::string> notes;  // what was left out
};

/// "[2, 3]"
std::string shape_text(const std::vector<std::uint64_t>& shape);
/// All elements of a plain tensor as float32.
void floats_of(const StoredTensor& stored, std::byte* out);

/// Rows of a matrix in heads from halves to pairs. `rows` is a multiple of 2 x heads (not checked).
void permute_rows(ByteSpan data, std::uint64_t rows, std::uint64_t heads, std::byte* out);

/// Takes the tensors of all files, then gives the whole. What is put together is put together when
/// it is held, from the files' mappings, which must outlive the result; with Contents::kShapes
/// such tensors have a size and no bytes. Errors name the folder's tensor, what it is and what was
/// expected. `where` stands in them.
class Assembler {
 public:
  Assembler(std::string where, const Family& family, const Sizes& sizes, Contents contents)
      : where_(std::move(where)), family_(family), sizes_(sizes), contents_(contents) {}

  /// kUnsupported: a tensor or a type that the family has not.
  Result<void> take(const std::string& name, const StoredTensor& stored);
  /// kFileInvalid: tensors that are missing, there twice or of another shape than their like.
  Result<Assembled> finish();

 private:
  struct Piece {
    std::string name;  // in the folder
    StoredTensor stored;
    Named named;
  };
  using Pieces = std::map<std::int64_t, Piece>;  // by expert; -1 alone for one that is whole

  Error invalid(const std::string& tensor, const std::string& why) const;
  Result<void> check(const std::string& name, const StoredTensor& stored, bool as_bytes) const;
  Result<void> whole(const std::string& name, const Piece& piece);
  Result<void> stacked(const std::string& name, const Pieces& pieces);
  Result<void> permuted(const Piece& piece, gguf::TensorInfo info);
  // assemble_states.cpp
  struct StateRows {
    std::uint64_t heads, groups;
    std::uint64_t before = 0;  // rows of queries and keys
    std::uint64_t each = 1;    // rows of a head
    std::uint64_t from(std::uint64_t i) const;
  };
  Result<StateRows> state_rows(const Piece& piece) const;
  Result<void> of_states(const Piece& piece, gguf::TensorInfo info);
  Result<void> state_floats(const Piece& piece, gguf::TensorInfo info, const StateRows& rows);
  Result<void> turned(const Piece& piece, gguf::TensorInfo info);
  Result<void> part_of(const Piece& piece, gguf::TensorInfo info);
  // assemble_experts.cpp
  Result<void> mxfp4(const std::string& name, const Piece& piece);
  Result<void> turned_each(const Piece& piece, gguf::TensorInfo info);
  Result<void> biases(const Piece& piece, gguf::TensorInfo info);
  Error unlike(const Piece& piece, const char* expected) const;
  Result<void> add_made(gguf::TensorInfo info, std::uint64_t bytes, gguf::MadeBytes::Make make);
  void add_factors(const char* name, const std::vector<float>& factors);

  std::string where_;
  const Family& family_;
  const Sizes& sizes_;
  Contents contents_;
  std::map<std::string, Pieces> pieces_;  // by GGUF's name
  std::map<std::string, Piece> scales_;   // of those in MXFP4, by the same name
  std::map<std::string, std::size_t> left_out_;
  Assembled out_;
};

}  // namespace holdfast::hf
