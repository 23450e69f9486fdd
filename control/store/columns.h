#pragma once
// Names of columns. Statements are made from such a list, and rows are read and written by its
// names: the compiler finds a name's place in the list and refuses one that is not there.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::store {

/// Names that a list lacks end here, which no constant expression may call.
inline void no_such_column() {}

/// The columns of a statement, in its order: `inline constexpr Columns kKeyColumns{"seq", "id"};`
template <std::size_t N>
struct Columns {
  template <class... Names>
  constexpr Columns(Names... all) : names{all...} {}

  std::array<const char*, N> names;

  consteval int position(std::string_view name) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (name == names[i]) return static_cast<int>(i);
    }
    no_such_column();
    return -1;
  }
  constexpr std::span<const char* const> span() const { return {names.data(), N}; }
  static constexpr int size() { return static_cast<int>(N); }
  /// SQL: "seq, id", each with `prefix` before it.
  std::string list(std::string_view prefix = "") const {
    std::string text;
    for (const char* name : names) {
      if (!text.empty()) text += ", ";
      text.append(prefix).append(name);
    }
    return text;
  }
};
template <class... Names>
Columns(Names...) -> Columns<sizeof...(Names)>;
inline constexpr Columns<0> kNoColumns;
using ColumnNames = std::span<const char* const>;

/// One column of such a list, made from its name.
template <const auto& kColumns>
struct Column {
  consteval Column(const char* name) : position(kColumns.position(name)) {}  // NOLINT
  int position;
};

}  // namespace holdfast::store
