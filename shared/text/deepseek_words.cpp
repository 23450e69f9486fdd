#include <algorithm>
#include <iterator>

#include "shared/text/unicode_class.h"
#include "shared/text/utf8.h"
#include "shared/text/word_rules.h"

namespace holdfast::text {
namespace {

struct Range {
  char32_t from, to;
};
// Cased letters above ASCII, as in the model's file.
constexpr Range kCased[] = {
    {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},       {0xF8, 0x1BA},
    {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
    {0x376, 0x376},     {0x377, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},
    {0x386, 0x386},     {0x388, 0x38A},     {0x38C, 0x38C},     {0x38E, 0x3A1},
    {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},     {0x531, 0x556},
    {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},
    {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},
    {0x1F50, 0x1F57},   {0x1F59, 0x1F59},   {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},
    {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},
    {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},
    {0x2107, 0x2107},   {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},
    {0x2124, 0x2124},   {0x2126, 0x2126},   {0x2128, 0x2128},   {0x212A, 0x212D},
    {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},   {0x2145, 0x2149},
    {0x214E, 0x214E},   {0x2183, 0x2183},   {0x2184, 0x2184},   {0x2C00, 0x2C7B},
    {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},
    {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},   {0xA771, 0xA787},
    {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3},
    {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF},
    {0x1E900, 0x1E943}};

bool is_cased(char32_t point) {
  const auto* const at = std::upper_bound(std::begin(kCased), std::end(kCased), point,
                                          [](char32_t p, const Range& r) { return p < r.from; });
  return at != std::begin(kCased) && point <= (at - 1)->to;
}

enum class Kind : std::uint8_t { kNewline, kLetter, kSymbol, kSpace, kOther };

Kind ascii_kind(char32_t c) {
  if (c == '\n' || c == '\r') return Kind::kNewline;
  if ((kAsciiClass[c] & kLetter) != 0) return Kind::kLetter;
  if ((kAsciiClass[c] & kSpace) != 0) return Kind::kSpace;
  return c > ' ' && c < 127 && (kAsciiClass[c] & kNumber) == 0 ? Kind::kSymbol : Kind::kOther;
}

bool is_wide_symbol(char32_t c) {
  const auto in = [c](char32_t from, char32_t to) { return c >= from && c <= to; };
  return in(0xFF01, 0xFF0F) || in(0xFF1A, 0xFF5E) || in(0x2018, 0x201F) || in(0x3001, 0x3002);
}

Kind wide_kind(char32_t c) {
  if (is_cased(c)) return Kind::kLetter;
  if (is_wide_symbol(c)) return Kind::kSymbol;
  return (class_of_wide(c) & kSpace) != 0 ? Kind::kSpace : Kind::kOther;
}

// Returns true for a letter in the symbols' pattern, which has ASCII letters (":-~") and fullwidth
// ones.
bool letter_is_symbol(char32_t c) {
  return c < 128 || is_wide_symbol(c);
}

// Returns the run class of a character: bit 0 of the CJK pattern, bit 1 of \p{N}. Neighbours of
// equal class stay together.
int run_class(char32_t c) {
  const bool cjk = (c >= 0x800 && c <= 0x9FA5 && c != 0x3000) || (c >= 0xAC00 && c <= 0xD7FF);
  return (cjk ? 1 : 0) | ((class_of(c) & kNumber) != 0 ? 2 : 0);
}

struct Step {
  Kind kind;
  std::uint32_t bytes;
};

class Cutter {
 public:
  Cutter(std::string_view text, std::uint32_t base, std::vector<std::uint32_t>& ends)
      : text_(text), base_(base), ends_(ends) {}
  void run();

 private:
  Step look(std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 128) return {ascii_kind(byte), 1};
    const Char c = decode_char(text_.data() + at);
    return {wide_kind(c.point), c.bytes};
  }
  // Returns where the characters of `kind` that begin at `at` end.
  std::size_t run_end(std::size_t at, Kind kind) const {
    while (at < text_.size()) {
      const Step next = look(at);
      if (next.kind != kind) break;
      at += next.bytes;
    }
    return at;
  }
  void emit(std::size_t end) {
    if (end == last_) return;
    last_ = end;
    ends_.push_back(base_ + static_cast<std::uint32_t>(end));
  }
  void cut_gap(std::size_t begin, std::size_t end);
  void cut_letters(std::size_t begin, std::size_t end);
  void cut_runs(std::size_t begin, std::size_t end);

  std::string_view text_;
  std::uint32_t base_;
  std::vector<std::uint32_t>& ends_;
  std::size_t last_ = 0;
};

// Cuts [\r\n], then \s?LETTERS+, then \s?SYMBOLS+: runs that include one white space character
// before them.
void Cutter::run() {
  std::size_t gap = 0;    // start of the text that these patterns do not match
  std::size_t space = 0;  // bytes of the white space character right before `at`
  std::size_t at = 0;
  while (at < text_.size()) {
    const Step step = look(at);
    const bool word = step.kind == Kind::kLetter || step.kind == Kind::kSymbol;
    if (!word && step.kind != Kind::kNewline) {
      space = step.kind == Kind::kSpace ? step.bytes : 0;
      at += step.bytes;
      continue;
    }
    cut_gap(gap, word ? at - space : at);
    at += step.bytes;
    if (word) at = run_end(at, step.kind);
    step.kind == Kind::kLetter ? cut_letters(last_, at) : cut_runs(last_, at);
    gap = at;
    space = 0;
  }
  cut_gap(gap, text_.size());
}

// Cuts \s+$ in the text between two words.
void Cutter::cut_gap(std::size_t begin, std::size_t end) {
  std::size_t body_end = begin;
  for (std::size_t at = begin; at < end;) {
    const Step step = look(at);
    at += step.bytes;
    if (step.kind != Kind::kSpace) body_end = at;
  }
  cut_runs(begin, body_end);
  cut_runs(body_end, end);
}

// Applies the symbols' pattern again to a match of the letters' one (with the space before it).
void Cutter::cut_letters(std::size_t begin, std::size_t end) {
  std::size_t at = begin;
  if (look(at).kind == Kind::kSpace) at += look(at).bytes;
  std::size_t part = begin;
  bool before = letter_is_symbol(decode_char(text_.data() + at).point);
  while (at < end) {
    const Char c = decode_char(text_.data() + at);
    const bool here = letter_is_symbol(c.point);
    if (here != before) {
      cut_runs(part, at);
      part = at;
      before = here;
    }
    at += c.bytes;
  }
  cut_runs(part, end);
}

// Cuts runs of CJK, then runs of numbers, in any segment: every pattern sees both the matches of
// all earlier ones and the text between them.
void Cutter::cut_runs(std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end;) {
    Char c = decode_char(text_.data() + at);
    const int run = run_class(c.point);
    do {
      at += c.bytes;
      if (at < end) c = decode_char(text_.data() + at);
    } while (at < end && run_class(c.point) == run);
    emit(at);
  }
}

}  // namespace

void split_deepseek_words(std::string_view text, std::uint32_t base,
                          std::vector<std::uint32_t>& ends) {
  Cutter(text, base, ends).run();
}

}  // namespace holdfast::text
