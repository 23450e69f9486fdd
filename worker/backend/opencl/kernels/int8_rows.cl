// Rows that products read. Where bytes are multiplied (INT8_ROWS), a row has 16 words for each
// panel of 16 values, in the memory of its floats: 15-bit codes as high bytes (4 words) and low
// bytes (4 words), the scale `one` (float), and the sum of the panel's values as the codes say them
// (float); six words are unused. value = (128 * high + low) * one, |128 * high + low| <= 16256. A
// panel of zero words has zeros. A panel with a value that is not finite has a scale of NaN.
#if INT8_ROWS
#define INT8_PANEL_WORDS 10
#define INT8_CODE_LARGEST 16256.0f

// The scale of a panel's codes; below 2^-100 a panel counts as zeros.
float int8_panel_scale(float16 v, float* times) {
  const float16 size = fabs(v);
  const float8 a = fmax(size.lo, size.hi);
  const float4 b = fmax(a.lo, a.hi);
  const float largest = fmax(fmax(b.x, b.y), fmax(b.z, b.w));
  const int finite = all(size <= (float16)(FLT_MAX));
  const int zeros = largest < 0x1p-100f;
  *times = finite && !zeros ? INT8_CODE_LARGEST / largest : 0.0f;
  return !finite ? NAN : zeros ? 0.0f : largest / INT8_CODE_LARGEST;
}

void pack_int8_panel(float16 v, __global float* panel) {
  float times;
  const float one = int8_panel_scale(v, &times);
  const int16 code = times > 0.0f ? convert_int16_rte(v * times) : (int16)(0);
  const int16 high = (code + 64) >> 7;
  const int8 a = code.lo + code.hi;
  const int4 b = a.lo + a.hi;
  __global uint4* to = (__global uint4*)panel;
  to[0] = as_uint4(convert_char16(high));
  to[1] = as_uint4(convert_char16(code - (high << 7)));
  ((__global float2*)panel)[4] = (float2)(one, (float)(b.x + b.y + b.z + b.w) * one);
}
void put_panel(float16 v, int p, __global float* row) {
  pack_int8_panel(v, row + p * 16);
}
// The same by sixteen items that have a value each, where `live`. `values`: sixteen words of
// theirs, at a multiple of 16 bytes. Every item of the group calls; items from LANES on have no value.
void put_panel_by_lanes(float v, int live, int lane, __local float* values, __global float* panel) {
  if (lane < LANES) values[lane] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  __local const float4* quads = (__local const float4*)values;
  float times;
  const float one =
      int8_panel_scale((float16)(quads[0], quads[1], quads[2], quads[3]), &times);
  const int code = times > 0.0f ? convert_int_rte(v * times) : 0;
  const int high = (code + 64) >> 7;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane < LANES) ((__local int*)values)[lane] = code;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (live && lane < LANES) {
    ((__global char*)panel)[lane] = (char)high;
    ((__global char*)panel)[LANES + lane] = (char)(code - (high << 7));
  }
  if (live && lane == 0) {
    __local const int4* codes = (__local const int4*)values;
    const int4 sum = (codes[0] + codes[1]) + (codes[2] + codes[3]);
    ((__global float2*)panel)[4] = (float2)(one, (float)(sum.x + sum.y + sum.z + sum.w) * one);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
// Values 8 at, ... of a row, and value i.
float8 eight_of(__global const float* row, int at) {
  __global const float* panel = row + at / 2 * 16;
  const uint2 high = ((__global const uint2*)panel)[at % 2];
  const uint2 low = ((__global const uint2*)panel)[2 + at % 2];
  const int8 code = convert_int8(as_char8(high)) * 128 + convert_int8(as_char8(low));
  return convert_float8(code) * panel[8];
}
float value_of(__global const float* row, int i) {
  __global const float* panel = row + i / 16 * 16;
  __global const char* bytes = (__global const char*)panel;
  return (float)(bytes[i % 16] * 128 + bytes[16 + i % 16]) * panel[8];
}
#else
void put_panel(float16 v, int p, __global float* row) {
  __global float4* to = (__global float4*)(row + p * 16);
  to[0] = v.lo.lo;
  to[1] = v.lo.hi;
  to[2] = v.hi.lo;
  to[3] = v.hi.hi;
}
float8 eight_of(__global const float* row, int at) {
  __global const float4* v = (__global const float4*)row + at * 2;
  return (float8)(v[0], v[1]);
}
float value_of(__global const float* row, int i) {
  return row[i];
}
#endif
