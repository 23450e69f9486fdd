#include "worker/backend/opencl/device/sources.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "opencl_kernels.h"
#include "shared/base/check.h"
#include "worker/backend/opencl/device/limits.h"

namespace holdfast::opencl {
namespace {

const char* kernel_text(const char* name) {
  for (const KernelText& file : kKernelTexts) {
    if (std::strcmp(file.name, name) == 0) return file.text;
  }
  CHECK_MSG(false, name);
  return nullptr;
}

/// Undefines first: a program with two formats defines some names twice.
std::string define(const char* name, std::int64_t value) {
  return std::string("#undef ") + name + "\n#define " + name + " " + std::to_string(value) + "\n";
}

std::string base(const KernelCapabilities& capabilities) {
  return define("WIDE_LANES", capabilities.wide_lanes) +
         define("INT8_ROWS", capabilities.int8_rows) + define("AHEAD", capabilities.ahead) +
         define("SHUFFLE", capabilities.shuffle) + define("DOT", capabilities.dot) +
         define("MATRIX", capabilities.matrix) + define("LANES", kLanes) +
         define("SLICES", kSlices) +
         define("SPANS_AHEAD", capabilities.ahead != 0 ? kSpansAhead : 1) +
         define("NORM_ITEMS", kNormItems) + define("TOP_MOST", kTopMost) +
         define("PAGE_TOKENS", kPageTokens) + define("SPLIT_TOKENS", kSplitTokens) +
         define("HEAD_DIM_MOST", kHeadDimMost) + kernel_text("parameters") + kernel_text("math") +
         kernel_text("int8_rows");
}

const char* dots(const KernelCapabilities& capabilities) {
  return capabilities.int8_rows ? kernel_text("dots") : "";
}

std::string table_text(cpu::Format format, int number, bool wide_lanes) {
  const std::string name = "kTable_" + std::to_string(number);
  std::string out =
      wide_lanes ? "#define " + name + " (float16)(" : "__constant float " + name + "[16] = {";
  const float* values = cpu::table_of(format);
  char text[32];
  for (int i = 0; i < 16; ++i) {  // hexadecimal: exact
    std::snprintf(text, sizeof text, "%s%af", i == 0 ? "" : ", ", static_cast<double>(values[i]));
    out += text;
  }
  return out + (wide_lanes ? ")\n" : "};\n");
}

/// The least power of two that makes whole numbers of a table's values.
int times_of(const float* values) {
  int times = 1;
  const auto whole = [&](float v) {
    return v * static_cast<float>(times) == std::rint(v * static_cast<float>(times));
  };
  while (!std::all_of(values, values + 16, whole)) times *= 2;
  return times;
}

/// The table's values times TABLE_TIMES, as bytes.
std::string bytes_text(cpu::Format format, int number) {
  const float* values = cpu::table_of(format);
  const int times = times_of(values);
  std::string out = define("TABLE_TIMES", times) + "__constant char kBytes_" +
                    std::to_string(number) + "[16] = {";
  for (int i = 0; i < 16; ++i) {
    const float v = values[i] * static_cast<float>(times);
    CHECK(v >= -128 && v <= 127);
    out += std::to_string(static_cast<int>(v)) + (i == 15 ? "};\n" : ", ");
  }
  return out;
}

/// Source that reads the weights of a format, which is the program's format `number`.
std::string weights_text(cpu::Format format, int number, const KernelCapabilities& capabilities) {
  const cpu::Layout& l = cpu::layout_of(format);
  std::string out = define("FORMAT", number);
  out += define("BLOCK", l.block) + define("GROUP", l.group);
  out += define("BLOCK_BYTES", cpu::block_bytes(l));
  out += define("HAS_D", l.has_d) + define("HAS_M", l.has_m) + define("HAS_SCALE", l.has_scale);
  out += define("HAS_MINIMUM", l.has_minimum) + define("NIBBLES", l.nibbles);
  out += define("D_BF16", l.d_bf16) + define("D_EACH", l.d_each);
  out += define("LOW_BITS", l.low_bits) + define("HIGH_BITS", l.high_bits);
  out += define("OFFSET", l.offset) + define("TABLE", l.table);
  out += define("PLAIN_BF16", format == cpu::Format::kBF16);
  out += define("SCALE_AT", cpu::scale_offset(l)) + define("MINIMUM_AT", cpu::minimum_offset(l));
  out += define("LOW_AT", cpu::low_offset(l)) + define("HIGH_AT", cpu::high_offset(l));
  if (l.table) out += table_text(format, number, capabilities.wide_lanes);
  out += kernel_text("weights");
  if (!capabilities.int8_rows || !l.has_d) return out;
  if (l.table) out += bytes_text(format, number);
  return out + kernel_text("bytes") + kernel_text("row_ahead");
}

}  // namespace

bool has_row_ahead(const KernelCapabilities& capabilities, cpu::Format first, cpu::Format second) {
  return capabilities.int8_rows && cpu::layout_of(first).has_d && cpu::layout_of(second).has_d;
}

bool by_matrix(const KernelCapabilities& capabilities, cpu::Format first, cpu::Format second) {
  return capabilities.matrix != 0 && has_row_ahead(capabilities, first, second);
}

std::span<const int> rows_shared(const KernelCapabilities& capabilities, cpu::Format first,
                                 cpu::Format second) {
  if (by_matrix(capabilities, first, second)) return kRowsOfMatrix;
  return kRowsShared;
}

std::string product_source(cpu::Format format, const KernelCapabilities& capabilities) {
  std::string out = base(capabilities) + dots(capabilities) + kernel_text("lanes") +
                    define("BY_MATRIX", by_matrix(capabilities, format, format)) +
                    define("ROW_AHEAD", has_row_ahead(capabilities, format, format)) +
                    weights_text(format, 0, capabilities) + kernel_text("embed") +
                    define("CONCAT_FORMATS", 0) + kernel_text("epilogue") + kernel_text("product");
  if (capabilities.wide_lanes) return out;
  const bool bytes = capabilities.int8_rows && cpu::layout_of(format).has_d;
  return out + define("TILE_ROWS", kTileRows) + define("TILE_PANELS", kTilePanels) +
         kernel_text(bytes ? "byte_tile" : "tile");
}

std::string concat_source(cpu::Format first, cpu::Format second,
                          const KernelCapabilities& capabilities) {
  return base(capabilities) + dots(capabilities) + kernel_text("lanes") +
         define("BY_MATRIX", by_matrix(capabilities, first, second)) +
         define("ROW_AHEAD", has_row_ahead(capabilities, first, second)) +
         weights_text(first, 0, capabilities) + weights_text(second, 1, capabilities) +
         define("CONCAT_FORMATS", 1) + kernel_text("epilogue") + kernel_text("product");
}

std::string unpack_source(cpu::Format format, const KernelCapabilities& capabilities) {
  CHECK(!capabilities.int8_rows);
  return base(capabilities) + kernel_text("lanes") + weights_text(format, 0, capabilities) +
         kernel_text("unpack");
}

std::string dense_source(const KernelCapabilities& capabilities) {
  return base(capabilities) + kernel_text("epilogue") + kernel_text("dense");
}

std::string pages_source(cpu::KvType type, const KernelCapabilities& capabilities) {
  return base(capabilities) + define("KV_TYPE", static_cast<int>(type)) + kernel_text("pages") +
         kernel_text("attention");
}

std::string rows_source(const KernelCapabilities& capabilities) {
  return base(capabilities) + kernel_text("spread") + kernel_text("rows");
}

std::string experts_source(const KernelCapabilities& capabilities) {
  return base(capabilities) + kernel_text("spread") + kernel_text("experts");
}

std::string delta_source(const plan::ModelShape& shape, int items,
                         const KernelCapabilities& capabilities) {
  return base(capabilities) + define("KEYS", shape.state_key) +
         define("VALUES", shape.state_value) + define("TAPS", shape.conv_taps) +
         define("DELTA_ITEMS", items) + kernel_text("delta");
}

std::string trial_source(Trial trial, const KernelCapabilities& capabilities) {
  return base(capabilities) + kernel_text("dots") + define("TRIAL", static_cast<int>(trial)) +
         kernel_text("trials");
}

}  // namespace holdfast::opencl
