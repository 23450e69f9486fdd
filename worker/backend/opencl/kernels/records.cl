// Rows that products read. Where bytes are multiplied (RECORDS) a row is a record of 16 words for
// each panel of 16 values, in the place of its floats: codes of 15 bits as high bytes (4 words), low
// bytes (4 words), the value of one (float), and the sum of the panel's values as codes say them
// (float); six words mean nothing. value = (128 * high + low) * one, |128 * high + low| <= 16256.
// Zeros are the record of zeros. What is not finite has a `one` of NaN.
#if RECORDS
#define RECORD_WORDS 10
#define RECORD_LARGEST 16256.0f

// What codes of a panel are multiplied with; below 2^-100 a panel counts as zeros.
float record_one(float16 v, float* times) {
  const float16 size = fabs(v);
  const float8 a = fmax(size.lo, size.hi);
  const float4 b = fmax(a.lo, a.hi);
  const float largest = fmax(fmax(b.x, b.y), fmax(b.z, b.w));
  const int finite = all(size <= (float16)(FLT_MAX));
  const int zeros = largest < 0x1p-100f;
  *times = finite && !zeros ? RECORD_LARGEST / largest : 0.0f;
  return !finite ? NAN : zeros ? 0.0f : largest / RECORD_LARGEST;
}

void put_record(float16 v, __global float* panel) {
  float times;
  const float one = record_one(v, &times);
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
  put_record(v, row + p * 16);
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
