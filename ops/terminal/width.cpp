#include "ops/terminal/width.h"

#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace holdfast::cli {
namespace {

constexpr std::string_view kGap = "…";
constexpr std::size_t kWidthMax = 10'000;

/// A piece of a text that is shown or left out as a whole.
struct Glyph {
  std::string_view bytes;
  std::size_t width = 0;
};

/// The code point that begins a text, and its bytes; a broken one is a byte, shown as one column.
std::pair<wchar_t, std::size_t> decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (size == 1 || first < 0xC2 || size > text.size()) return {static_cast<wchar_t>(first), 1};
  wchar_t point = first & (0xFF >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {static_cast<wchar_t>(first), 1};
    point = (point << 6) | (byte(i) & 0x3F);
  }
  return {point, size};
}

/// Columns of a code point by the C library's table, which is that of most terminals, whatever LANG
/// says.
std::size_t width_of(wchar_t point) {
  if (point < 0x300) return 1;
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int width = wcwidth(point);
  uselocale(before);
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

/// Bytes of a colour at the beginning of a text; 0 if there is none.
std::size_t colour_bytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos || text[end] != 'm' ? 0 : end + 1;
}

Glyph first_glyph(std::string_view text) {
  if (const std::size_t colour = colour_bytes(text); colour > 0) return {text.substr(0, colour), 0};
  const auto [point, size] = decode(text);
  return {text.substr(0, size), width_of(point)};
}

/// Bytes of the longest beginning that fits the columns.
std::size_t fitting(std::string_view text, std::size_t width) {
  std::size_t at = 0, used = 0;
  while (at < text.size()) {
    const Glyph glyph = first_glyph(text.substr(at));
    if (used + glyph.width > width) break;
    used += glyph.width;
    at += glyph.bytes.size();
  }
  return at;
}

/// The offset of the longest tail that fits the columns.
std::size_t tail_at(std::string_view text, std::size_t width) {
  std::size_t at = 0, left = display_width(text);
  while (at < text.size()) {
    const Glyph glyph = first_glyph(text.substr(at));
    if (left <= width && glyph.width > 0) break;  // a combining mark is not parted from its letter
    left -= glyph.width;
    at += glyph.bytes.size();
  }
  return at;
}

/// The best offset, `most` or less, to break a line at: after a blank, else after a sign that
/// separates words, else at `most`.
std::size_t break_at(std::string_view line, std::size_t most, std::size_t least) {
  for (const char* signs : {" ", ",;/|"}) {
    const std::size_t at = line.substr(0, most).find_last_of(signs);
    if (at != std::string_view::npos && at + 1 > std::max(least, most / 3)) return at + 1;
  }
  return most;
}

void append_wrapped(std::string& out, std::string_view line, std::size_t width,
                    std::size_t indent) {
  const std::size_t leading_spaces = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t further = std::min(indent > 0 ? indent : leading_spaces + 2, width / 2);
  std::size_t available = width;
  while (display_width(line) > available) {
    std::size_t most = fitting(line, available);
    if (most < line.size() && line[most] == ' ') ++most;  // a blank at the edge is not shown
    const std::size_t at = std::max<std::size_t>(break_at(line, most, leading_spaces), 1);
    std::string_view head = line.substr(0, at);
    while (head.ends_with(' ')) head.remove_suffix(1);
    out += head;
    line.remove_prefix(at);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) return;
    out += '\n' + std::string(further, ' ');
    available = width - further;
  }
  out += line;
}

}  // namespace

std::size_t line_width() {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && columns[0] != '\0') {
    char* end = nullptr;
    const unsigned long value = std::strtoul(columns, &end, 10);
    if (*end == '\0' && value > 0 && value <= kWidthMax) return value;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::size_t terminal_rows() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    width += glyph.width;
    text.remove_prefix(glyph.bytes.size());
  }
  return width;
}

std::string shorten(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  const bool sentence = text.find(' ') != std::string_view::npos;
  // The end of a path or an id tells more than its middle.
  const std::size_t tail = sentence || width < 8 ? 0 : (width - 1) / 2;
  const std::size_t head = width - 1 - tail;
  std::string out(text.substr(0, fitting(text, head)));
  out += kGap;
  if (tail > 0) out += text.substr(tail_at(text, tail));
  return out;
}

std::string wrap_lines(std::string_view text, std::size_t width, std::size_t indent) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    append_wrapped(out, text.substr(0, end), std::max<std::size_t>(width, 4), indent);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void print_lines(std::string_view text, std::size_t indent) {
  const std::string wrapped = wrap_lines(text, line_width(), indent);
  std::fwrite(wrapped.data(), 1, wrapped.size(), stdout);
  std::fflush(stdout);
}

}  // namespace holdfast::cli
