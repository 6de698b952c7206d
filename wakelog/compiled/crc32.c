/* CRC-32, as zlib computes it: by carry-less multiplication where the processor has it, else by
   tables.

   A CRC is the remainder of a polynomial division. Bytes may be replaced by others with the same
   remainder. So a lane of 16 bytes is kept. A multiplication by a constant moves it 16 bytes on,
   and the next 16 bytes are xored into it. From 64 bytes on four lanes are moved 64 bytes at once.
   In the end the lane is reduced to 32 bits.

   Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
   Instruction", 2009. */

#include "runs.h"

#define LANE_BYTES 16
#define LANES_COUNT 4

static uint32_t tables[LANE_BYTES][256]; /* [n][b]: of b and n zeros */
static int can_fold;

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define PCLMULQDQ_BIT (1u << 1)

static int find_multiplication(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & PCLMULQDQ_BIT) != 0;
}

#define FOLD(lane, factors)                                                                        \
    _mm_xor_si128(_mm_clmulepi64_si128(lane, factors, 0x00),                                       \
                  _mm_clmulepi64_si128(lane, factors, 0x11))

#define LOAD(from) _mm_loadu_si128((const __m128i *)(const void *)(from))

/* Return the remainder of a lane, 32 bits. */
__attribute__((target("pclmul"))) static uint32_t reduce(__m128i lane) {
    const __m128i by_lane = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    const __m128i by_half = _mm_set_epi64x(0, 0x163CD6124);
    const __m128i polynomial = _mm_set_epi64x(0x1F7011641, 0x1DB710641); /* its inverse above */
    const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
    lane = _mm_xor_si128(_mm_srli_si128(lane, 8), _mm_clmulepi64_si128(lane, by_lane, 0x10));
    lane = _mm_xor_si128(_mm_srli_si128(lane, 4),
                         _mm_clmulepi64_si128(_mm_and_si128(lane, words), by_half, 0x00));
    __m128i times = _mm_clmulepi64_si128(_mm_and_si128(lane, words), polynomial, 0x10);
    times = _mm_clmulepi64_si128(_mm_and_si128(times, words), polynomial, 0x00);
    return (uint32_t)_mm_cvtsi128_si32(_mm_srli_si128(_mm_xor_si128(lane, times), 4));
}

/* Continue an inverted CRC with lanes, at least one. */
__attribute__((target("pclmul"))) static uint32_t fold(const uint8_t *data, size_t lanes_count,
                                                        uint32_t crc) {
    const __m128i by_block = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
    const __m128i by_lane = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
    const uint8_t *end = data + lanes_count * LANE_BYTES;
    __m128i lane = _mm_xor_si128(LOAD(data), _mm_cvtsi32_si128((int)crc));
    data += LANE_BYTES;
    if (lanes_count >= LANES_COUNT) {
        __m128i second = LOAD(data), third = LOAD(data + 16), fourth = LOAD(data + 32);
        for (data += 48; end - data >= 64; data += 64) {
            lane = _mm_xor_si128(FOLD(lane, by_block), LOAD(data));
            second = _mm_xor_si128(FOLD(second, by_block), LOAD(data + 16));
            third = _mm_xor_si128(FOLD(third, by_block), LOAD(data + 32));
            fourth = _mm_xor_si128(FOLD(fourth, by_block), LOAD(data + 48));
        }
        lane = _mm_xor_si128(FOLD(lane, by_lane), second);
        lane = _mm_xor_si128(FOLD(lane, by_lane), third);
        lane = _mm_xor_si128(FOLD(lane, by_lane), fourth);
    }
    for (; data < end; data += LANE_BYTES)
        lane = _mm_xor_si128(FOLD(lane, by_lane), LOAD(data));
    return reduce(lane);
}
#else
static int find_multiplication(void) {
    return 0;
}

static uint32_t fold(const uint8_t *data, size_t lanes_count, uint32_t crc) {
    (void)data, (void)lanes_count;
    return crc;
}
#endif

void prepare_crc(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
        tables[0][i] = value;
    }
    for (int step = 1; step < LANE_BYTES; step++)
        for (int i = 0; i < 256; i++)
            tables[step][i] =
                tables[step - 1][i] >> 8 ^ tables[0][tables[step - 1][i] & 0xFF];
    can_fold = find_multiplication();
}

/* Continue an inverted CRC with `size` bytes, at least 4 and at most LANE_BYTES. */
static inline uint32_t step(const uint8_t *data, int size, uint32_t crc) {
    uint32_t next = 0;
#pragma GCC unroll 16
    for (int i = 0; i < size; i++)
        next ^= tables[size - 1 - i][data[i] ^ (i < 4 ? crc >> 8 * i & 0xFF : 0)];
    return next;
}

uint32_t crc32_of(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    if (can_fold && size >= LANE_BYTES) {
        crc = fold(data, size / LANE_BYTES, crc);
        data += size - size % LANE_BYTES;
        size %= LANE_BYTES;
    }
    for (; size >= LANE_BYTES; data += LANE_BYTES, size -= LANE_BYTES)
        crc = step(data, LANE_BYTES, crc);
    for (; size >= 4; data += 4, size -= 4)
        crc = step(data, 4, crc);
    while (size--)
        crc = crc >> 8 ^ tables[0][(crc ^ *data++) & 0xFF];
    return ~crc;
}
