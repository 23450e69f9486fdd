// The fused epilogue of a product, which stores y.
#define STORE 0         // y = bias + product
#define ADD 1           // y += scale * gate[row] * (bias + product)
#define ACTIVATE 2      // y = act(bias + product)
#define TIMES_ACTIVE 3  // y = act(y) * (bias + product), or gated_by(): y is the gate's product
#define LOGITS 4        // y = cap * tanh(scale * product / cap)

float finish_output(__global const float* y, float v, int mode, int activation, float scale,
                    float cap) {
  return mode == ADD            ? fma(v, scale, *y)
         : mode == ACTIVATE     ? activated(activation, v)
         : mode == TIMES_ACTIVE ? gated_by(activation, *y, v)
         : mode == LOGITS       ? capped(v * scale, cap)
                                : v;
}
