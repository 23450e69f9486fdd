#pragma once
// The part of CBOR (RFC 8949) that the protocol uses: definite lengths only, integers, floats,
// booleans, null, byte and text strings, arrays, maps with text keys; tags are refused. An
// implementation of our own because TOKENS, EVENT and ACK are the hot path; any CBOR library reads
// the same bytes.

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::wire {

/// Appends to a string that it owns. Text must be UTF-8 on the wire: other bytes become '?'.
class CborWriter {
 public:
  explicit CborWriter(std::size_t reserve) { out_.reserve(reserve); }
  std::string& out() { return out_; }

  void put_uint(std::uint64_t v) { put_head(0, v); }
  void put_int(std::int64_t v) {
    if (v >= 0) {
      put_head(0, static_cast<std::uint64_t>(v));
    } else {
      put_head(1, ~static_cast<std::uint64_t>(v));
    }
  }
  void put_bool(bool v) { out_.push_back(static_cast<char>(v ? 0xf5 : 0xf4)); }
  void put_float(float v);
  void put_double(double v);
  void put_bytes(std::string_view v) {
    put_head(2, v.size());
    out_.append(v);
  }
  void put_text(std::string_view v);
  void put_key(std::string_view ascii) {
    put_head(3, ascii.size());
    out_.append(ascii);
  }
  void put_array(std::uint64_t n) { put_head(4, n); }
  void put_map(std::uint64_t n) { put_head(5, n); }

 private:
  void put_head(unsigned major, std::uint64_t v) {
    if (v < 24) {
      out_.push_back(static_cast<char>(major << 5 | v));
    } else {
      put_long_head(major, v);
    }
  }
  void put_long_head(unsigned major, std::uint64_t v);
  std::string out_;
};

/// Reads from bytes that it does not own. Every read checks type, range and remaining length; the
/// first failure is stored (error(), at offset()) and all later reads fail too. Never throws.
class CborReader {
 public:
  static constexpr int kDepthMax = 32;

  explicit CborReader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return error_ == nullptr; }
  const char* error() const { return error_; }  // nullptr = none so far
  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  bool fail(const char* what) {
    if (error_ == nullptr) error_ = what;
    return false;
  }

  bool read_uint(std::uint64_t& v);  // 0 .. 2^64 - 1
  bool read_int(std::int64_t& v);    // int64 range
  bool read_bool(bool& v);
  bool read_double(double& v);  // any float width or an integer; finite
  /// Returns views into the bytes. read_blob also takes text; read_text requires UTF-8.
  bool read_blob(std::string_view& v);
  bool read_text(std::string_view& v);
  bool read_key(std::string_view& v);
  /// Reads the head; n is at most what the remaining bytes can hold (one byte an element, two a
  /// pair).
  bool read_array(std::uint64_t& n);
  bool read_map(std::uint64_t& n);
  /// Returns true and consumes a null if one is next.
  bool take_null();
  /// Skips one item of any type, nested at most kDepthMax deep.
  bool skip(int depth = 0);

 private:
  bool read_head(unsigned& major, unsigned& info, std::uint64_t& v);
  bool take(std::uint64_t n, std::string_view& v);
  bool skip_items(std::uint64_t n, int depth);
  std::string_view bytes_;
  std::size_t offset_ = 0;
  const char* error_ = nullptr;
};

}  // namespace holdfast::wire
