#include "shared/text/regex_split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <atomic>

#include "shared/base/check.h"

namespace holdfast::text {
namespace {

constexpr std::uint32_t kMatchSteps = 10'000'000;
constexpr std::uint32_t kHeapKib = 64 * 1024;
constexpr std::size_t kJitStackStart = 64 * 1024;
constexpr std::size_t kJitStackMax = 16 * 1024 * 1024;
std::atomic<bool> g_interpret{false};

// The state of a split call's matches; PCRE2 requires one per thread.
class MatchScratch {
 public:
  MatchScratch()
      : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    CHECK(data_ != nullptr && context_ != nullptr);
    pcre2_set_match_limit(context_, kMatchSteps);
    pcre2_set_heap_limit(context_, kHeapKib);
  }
  ~MatchScratch() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    if (stack_ != nullptr) pcre2_jit_stack_free(stack_);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

  int match(const pcre2_code* code, std::string_view text, std::size_t from) {
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    constexpr std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int rc = pcre2_match(code, subject, text.size(), from, options, data_, context_);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && stack_ == nullptr) {  // 32 KiB by default: rarely short
      stack_ = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
      pcre2_jit_stack_assign(context_, nullptr, stack_);
      rc = pcre2_match(code, subject, text.size(), from, options, data_, context_);
    }
    return rc;
  }
  std::size_t begin() const { return pcre2_get_ovector_pointer(data_)[0]; }
  std::size_t end() const { return pcre2_get_ovector_pointer(data_)[1]; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_ = nullptr;
};

}  // namespace

void interpret_patterns() {
  g_interpret.store(true);
}

struct RegexSplitter::Compiled {
  explicit Compiled(std::string_view pattern) {
    std::size_t offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                         PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr);
    if (code == nullptr) return;
    // Without JIT (a host that forbids writable code) pcre2_match interprets: slower, with the same
    // result.
    if (!g_interpret.load()) static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  }
  ~Compiled() {
    if (code != nullptr) pcre2_code_free(code);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  // Cuts one segment; ends are offsets in the segment plus base.
  Result<void> cut(std::string_view segment, std::uint32_t base, MatchScratch& scratch,
                   std::vector<std::uint32_t>& ends) const {
    std::size_t done = 0;
    while (done < segment.size()) {
      const int rc = scratch.match(code, segment, done);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0) {
        return Error{Errc::kInvalidRequest,
                     "split text at byte " + std::to_string(base + done) +
                         ": the model's pattern passed its limits (PCRE2 error " +
                         std::to_string(rc) + "); expected text in which it matches sooner"};
      }
      CHECK(scratch.begin() >= done && scratch.end() > scratch.begin());  // PCRE2_NOTEMPTY, no \K
      if (scratch.begin() > done)
        ends.push_back(base + static_cast<std::uint32_t>(scratch.begin()));
      done = scratch.end();
      ends.push_back(base + static_cast<std::uint32_t>(done));
    }
    if (done < segment.size()) ends.push_back(base + static_cast<std::uint32_t>(segment.size()));
    return {};
  }

  pcre2_code* code = nullptr;
  int error = 0;  // why code is nullptr
};

RegexSplitter::RegexSplitter(const std::vector<std::string_view>& patterns) {
  for (const std::string_view pattern : patterns) {
    patterns_.push_back(std::make_unique<Compiled>(pattern));
    CHECK_MSG(patterns_.back()->code != nullptr, std::string(pattern).c_str());
  }
}

Result<std::unique_ptr<const RegexSplitter>> RegexSplitter::compile(
    const std::vector<std::string_view>& patterns) {
  constexpr std::size_t kLongest = 8192;
  constexpr std::size_t kMost = 64;
  const auto invalid = [](std::size_t i, const std::string& why) {
    return Error{Errc::kFileInvalid,
                 "load tokenizer: its pattern " + std::to_string(i) + " " + why};
  };
  if (patterns.size() > kMost) return invalid(kMost, "is one too many");
  std::unique_ptr<RegexSplitter> made(new RegexSplitter());
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].size() > kLongest) return invalid(i, "is longer than 8192 bytes");
    // \K and \C could move a match or cut it inside of a character.
    if (patterns[i].find("\\K") != std::string_view::npos ||
        patterns[i].find("\\C") != std::string_view::npos) {
      return invalid(i, "has \\K or \\C, which are not supported");
    }
    made->patterns_.push_back(std::make_unique<Compiled>(patterns[i]));
    if (made->patterns_.back()->code == nullptr) {
      return invalid(i, "does not compile (PCRE2 error " +
                            std::to_string(made->patterns_.back()->error) + ")");
    }
  }
  return std::unique_ptr<const RegexSplitter>(std::move(made));
}

RegexSplitter::~RegexSplitter() = default;

Result<void> RegexSplitter::split(std::string_view text, std::vector<std::uint32_t>& ends) const {
  if (text.empty()) return {};
  MatchScratch scratch;
  std::vector<std::uint32_t> segment_ends{static_cast<std::uint32_t>(text.size())};
  std::vector<std::uint32_t> cut;
  for (const auto& pattern : patterns_) {
    cut.clear();
    std::uint32_t begin = 0;
    for (const std::uint32_t end : segment_ends) {
      HOLDFAST_CHECKED(pattern->cut(text.substr(begin, end - begin), begin, scratch, cut));
      begin = end;
    }
    segment_ends.swap(cut);
  }
  ends.insert(ends.end(), segment_ends.begin(), segment_ends.end());
  return {};
}

}  // namespace holdfast::text
