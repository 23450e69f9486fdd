// An item's part of a panel's 16 rows in a product: one of them, or (WIDE_LANES, on devices that
// add vectors) all. The operations on a row are the same ones.
#define OF_NUMBER(name, number) name##number
#define OF_FORMAT(name, number) OF_NUMBER(name, number)
#define OF(name) OF_FORMAT(name##_, FORMAT)
#define GROUP_UNITS (GROUP >= 32 ? 4 : GROUP / 8)
#define BLOCK_SPANS (BLOCK / 32)

#if WIDE_LANES
#define F float16
#define U uint16
#define ITEM_LANES 16
#define TO_FLOAT(x) convert_float16(x)
#define LANES_OF(p, at) vload16(at, p)
#define HALVES_OF(p, at) vload_half16(at, p)
#define SIGNED_BYTES(x) convert_float16(as_char16(x))
#define BITS_AS_FLOATS(x) as_float16(convert_uint16(x) << 16)
#define LOW_BYTE_SIGNED(x) convert_float16(as_int16((x) << 24) >> 24)
#define LOOK_UP(x) shuffle(OF(kTable), x)
#else
#define F float
#define U uint
#define ITEM_LANES 1
#define TO_FLOAT(x) (float)(x)
#define LANES_OF(p, at) (p)[(at) * 16 + lane]
#define HALVES_OF(p, at) vload_half((at) * 16 + lane, p)
#define SIGNED_BYTES(x) (float)as_char(x)
#define BITS_AS_FLOATS(x) as_float((uint)(x) << 16)
#define LOW_BYTE_SIGNED(x) (float)(as_int((x) << 24) >> 24)
#define LOOK_UP(x) OF(kTable)[x]
#endif
#define ITEMS (LANES / ITEM_LANES)

#if WIDE_LANES
#define STORE_LANES(x, p) vstore16(x, 0, p)
#define LANE(x, i) lane_of(x, i)
float lane_of(float16 x, int i) {
  float all[16];
  vstore16(x, 0, all);
  return all[i];
}
#else
#define STORE_LANES(x, p) (p)[0] = x
#define LANE(x, i) (x)
#endif

// The order in which a tile takes slices, so that it adds their sums as product.cl's tree does, ((0
// + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). A table, because a compiler that recognizes reversed bits
// makes an operation of them that not every driver has.
__constant uchar kSliceOrder[SLICES] = {0, 4, 2, 6, 1, 5, 3, 7};
