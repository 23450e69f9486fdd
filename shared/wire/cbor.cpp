#include "shared/wire/cbor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "shared/base/bytes.h"

namespace holdfast::wire {
namespace {

template <class T>
void append_big_endian(std::string& out, T v) {
  char bytes[sizeof(T)];
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = static_cast<char>(v >> (8 * (sizeof(T) - 1 - i)));
  }
  out.append(bytes, sizeof(T));
}

bool is_ascii(std::string_view text) {
  std::uint64_t high = 0;
  while (text.size() >= sizeof(high)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof(word));
    high |= word;
    text.remove_prefix(sizeof(word));
  }
  for (const char c : text) high |= static_cast<std::uint64_t>(c) & 0x80;
  return (high & 0x8080808080808080) == 0;
}

/// Copies well-formed sequences and turns each other byte into '?'.
std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t n = 1;
    while (n < 4 && n < text.size() && !is_valid_utf8(text.substr(0, n))) ++n;
    if (is_valid_utf8(text.substr(0, n))) {
      out.append(text.substr(0, n));
    } else {
      out.push_back('?');
      n = 1;
    }
    text.remove_prefix(n);
  }
  return out;
}

double half_value(std::uint16_t h) {
  const int exponent = h >> 10 & 0x1f;
  const double mantissa = h & 0x3ff;
  double v = 0;
  if (exponent == 0) {
    v = std::ldexp(mantissa, -24);
  } else if (exponent == 31) {
    v = mantissa == 0 ? HUGE_VAL : NAN;
  } else {
    v = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (h & 0x8000) != 0 ? -v : v;
}

}  // namespace

void CborWriter::put_long_head(unsigned major, std::uint64_t v) {
  const unsigned high = major << 5;
  if (v <= 0xff) {
    out_.push_back(static_cast<char>(high | 24));
    out_.push_back(static_cast<char>(v));
  } else if (v <= 0xffff) {
    out_.push_back(static_cast<char>(high | 25));
    append_big_endian(out_, static_cast<std::uint16_t>(v));
  } else if (v <= 0xffffffff) {
    out_.push_back(static_cast<char>(high | 26));
    append_big_endian(out_, static_cast<std::uint32_t>(v));
  } else {
    out_.push_back(static_cast<char>(high | 27));
    append_big_endian(out_, v);
  }
}

void CborWriter::put_float(float v) {
  out_.push_back(static_cast<char>(0xfa));
  append_big_endian(out_, std::bit_cast<std::uint32_t>(v));
}

void CborWriter::put_double(double v) {
  out_.push_back(static_cast<char>(0xfb));
  append_big_endian(out_, std::bit_cast<std::uint64_t>(v));
}

void CborWriter::put_text(std::string_view v) {
  if (!is_ascii(v) && !is_valid_utf8(v)) return put_key(replace_invalid(v));
  put_key(v);
}

bool CborReader::take(std::uint64_t n, std::string_view& v) {
  if (n > remaining()) return fail("a length beyond the end of the message");
  v = bytes_.substr(offset_, n);
  offset_ += n;
  return true;
}

bool CborReader::read_head(unsigned& major, unsigned& info, std::uint64_t& v) {
  if (!ok()) return false;
  if (remaining() == 0) return fail("the message ends too early");
  const auto first = static_cast<unsigned char>(bytes_[offset_++]);
  major = first >> 5;
  info = first & 0x1f;
  v = info;
  if (info < 24) return true;
  if (info > 27) return fail("an indefinite or reserved CBOR length");
  std::string_view raw;
  if (!take(1ULL << (info - 24), raw)) return false;
  v = 0;
  for (const char c : raw) v = v << 8 | static_cast<unsigned char>(c);
  return true;
}

bool CborReader::read_uint(std::uint64_t& v) {
  unsigned major = 0, info = 0;
  if (!read_head(major, info, v)) return false;
  if (major != 0) return fail("expected an unsigned integer");
  return true;
}

bool CborReader::read_int(std::int64_t& v) {
  unsigned major = 0, info = 0;
  std::uint64_t u = 0;
  if (!read_head(major, info, u)) return false;
  if (major > 1) return fail("expected an integer");
  if (u > static_cast<std::uint64_t>(INT64_MAX)) return fail("an integer beyond 64 bits");
  v = static_cast<std::int64_t>(major == 0 ? u : ~u);
  return true;
}

bool CborReader::read_bool(bool& v) {
  unsigned major = 0, info = 0;
  std::uint64_t u = 0;
  if (!read_head(major, info, u)) return false;
  if (major != 7 || (info != 20 && info != 21)) return fail("expected true or false");
  v = info == 21;
  return true;
}

namespace {

/// Returns a floating-point number of simple type `info`; nullopt if it is none.
std::optional<double> float_of(unsigned info, std::uint64_t bits) {
  switch (info) {
    case 25:
      return half_value(static_cast<std::uint16_t>(bits));
    case 26:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case 27:
      return std::bit_cast<double>(bits);
    default:
      return std::nullopt;
  }
}

}  // namespace

bool CborReader::read_double(double& v) {
  unsigned major = 0, info = 0;
  std::uint64_t u = 0;
  if (!read_head(major, info, u)) return false;
  if (major == 0) {
    v = static_cast<double>(u);
  } else if (major == 1) {
    v = -1.0 - static_cast<double>(u);
  } else {
    const std::optional<double> real = major == 7 ? float_of(info, u) : std::nullopt;
    if (!real) return fail("expected a number");
    v = *real;
  }
  if (!std::isfinite(v)) return fail("a number that is not finite");
  return true;
}

bool CborReader::read_blob(std::string_view& v) {
  unsigned major = 0, info = 0;
  std::uint64_t n = 0;
  if (!read_head(major, info, n)) return false;
  if (major != 2 && major != 3) return fail("expected a byte string");
  return take(n, v);
}

bool CborReader::read_key(std::string_view& v) {
  unsigned major = 0, info = 0;
  std::uint64_t n = 0;
  if (!read_head(major, info, n)) return false;
  if (major != 3) return fail("expected a text string");
  return take(n, v);
}

bool CborReader::read_text(std::string_view& v) {
  if (!read_key(v)) return false;
  if (!is_ascii(v) && !is_valid_utf8(v)) return fail("text that is not UTF-8");
  return true;
}

bool CborReader::read_array(std::uint64_t& n) {
  unsigned major = 0, info = 0;
  if (!read_head(major, info, n)) return false;
  if (major != 4) return fail("expected an array");
  if (n > remaining()) return fail("an array longer than the message");
  return true;
}

bool CborReader::read_map(std::uint64_t& n) {
  unsigned major = 0, info = 0;
  if (!read_head(major, info, n)) return false;
  if (major != 5) return fail("expected a map");
  if (n > remaining() / 2) return fail("a map longer than the message");
  return true;
}

bool CborReader::take_null() {
  if (!ok() || remaining() == 0 || static_cast<unsigned char>(bytes_[offset_]) != 0xf6) {
    return false;
  }
  ++offset_;
  return true;
}

bool CborReader::skip_items(std::uint64_t n, int depth) {
  for (; n > 0; --n) {
    if (!skip(depth)) return false;
  }
  return true;
}

bool CborReader::skip(int depth) {
  if (depth >= kDepthMax) return fail("nested deeper than 32");
  unsigned major = 0, info = 0;
  std::uint64_t n = 0;
  std::string_view ignored;
  if (!read_head(major, info, n)) return false;
  switch (major) {
    case 0:
    case 1:
      return true;
    case 2:
    case 3:
      return take(n, ignored);
    case 4:
    case 5:
      if (n > remaining()) return fail("an array or map longer than the message");
      return skip_items(major == 5 ? 2 * n : n, depth + 1);
    case 7:
      if (info < 20 || info == 24) return fail("an unknown simple value");
      return true;
    default:
      return fail("a CBOR tag");
  }
}

}  // namespace holdfast::wire
