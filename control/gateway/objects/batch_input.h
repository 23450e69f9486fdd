#pragma once
// The lines of a batch's input file, read chunk by chunk. Of each line only its position is
// remembered. A line that could not be a POST is an error of its own; a file that is no list of
// requests fails as a whole.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::gateway {

inline constexpr std::size_t kBatchLinesMax = 50'000;
/// Bytes of a line besides its body.
inline constexpr std::size_t kBatchLineExtra = 8 * 1024;

/// One line of the input file, by its position.
struct BatchLine {
  std::string custom_id;
  std::int64_t from = 0;  // first byte in the file
  std::size_t bytes = 0;
  std::string refusal;  // not empty: why the line is not started
};
/// A fault of one line or of the whole file.
struct BatchError {
  std::string code;
  std::string message;
  std::int64_t line = 0;  // from 1; 0 = the file
};

/// Reads an input file incrementally. Not thread-safe.
class BatchReader {
 public:
  /// Runs `read` on the content of line `number` (from 0), or returns false: the line is not read.
  using Guard = std::function<bool(std::size_t number, const std::function<void()>& read)>;

  /// Expects requests of `endpoint` with bodies of at most `body_bytes_max` bytes.
  BatchReader(std::string endpoint, std::size_t body_bytes_max, Guard guard = {});

  /// Takes the next bytes of the file.
  void feed(std::string_view chunk);
  /// Ends the file. Returns the errors with which the batch fails, at most 20; empty if there are
  /// none.
  std::vector<BatchError> end();
  /// True if the file has so many errors that reading on is pointless.
  bool is_hopeless() const;
  std::vector<BatchLine>& lines() { return lines_; }

 private:
  void append_to_line(std::string_view part);
  void end_line();
  BatchError read_line(std::string_view text, BatchLine* out);
  BatchError read_large(std::string_view text, BatchLine* out);

  const std::string endpoint_;
  const std::size_t line_bytes_max_;
  const Guard guard_;
  std::string line_;            // first bytes of the current line, up to the bound
  std::size_t line_bytes_ = 0;  // all bytes of the current line
  std::int64_t at_ = 0;         // bytes of the file read so far
  std::int64_t number_ = 0;     // number of the current line in the file, from 1
  std::set<std::string> custom_ids_;
  std::vector<BatchLine> lines_;
  std::vector<BatchError> errors_;
};

}  // namespace holdfast::gateway
