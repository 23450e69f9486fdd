#pragma once
// The lines of a batch's input file, read piece by piece: what is kept of a line is where it
// stands. A line that no POST could be is an error of its own; a file that is no list of requests
// is none at all.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::gateway {

inline constexpr std::size_t kBatchLinesMax = 50'000;
/// Fields of a line beside its body.
inline constexpr std::size_t kBatchLineExtra = 8 * 1024;

struct BatchLine {
  std::string custom_id;
  std::int64_t from = 0;  // byte of the file
  std::size_t bytes = 0;
  std::string refusal;  // not empty: it is not begun, this is why
};
struct BatchError {
  std::string code;
  std::string message;
  std::int64_t line = 0;  // from 1; 0 = the file
};

class BatchReader {
 public:
  /// Runs `read` with what is known of line `number` (from 0), or says false: it is not read.
  using Guard = std::function<bool(std::size_t number, const std::function<void()>& read)>;

  /// Requests of `endpoint`, with bodies of at most `body_bytes_max`.
  BatchReader(std::string endpoint, std::size_t body_bytes_max, Guard guard = {});

  /// The next bytes of the file.
  void feed(std::string_view piece);
  /// There are no more. Not empty: the batch fails with them (20 at most).
  std::vector<BatchError> end();
  /// There is enough wrong with the file to say so.
  bool is_hopeless() const;
  std::vector<BatchLine>& lines() { return lines_; }

 private:
  void keep(std::string_view part);
  void end_line();
  BatchError read_line(std::string_view text, BatchLine* out);
  BatchError read_large(std::string_view text, BatchLine* out);

  const std::string endpoint_;
  const std::size_t line_bytes_max_;
  const Guard guard_;
  std::string line_;            // its first bytes, up to the bound
  std::size_t line_bytes_ = 0;  // of all of it
  std::int64_t at_ = 0;         // bytes of the file that were seen
  std::int64_t number_ = 0;     // of the line in the file, from 1
  std::set<std::string> seen_;
  std::vector<BatchLine> lines_;
  std::vector<BatchError> errors_;
};

}  // namespace holdfast::gateway
