/*
 * What Poly1305 in plain C does in a second of one processor: RFC 8439 2.5.1, with limbs of 26 bits and products of 64,
 * as OpenSSH's poly1305.c has them, and without a line of it. `cc -O2`; prints bytes per second of processor time.
 *
 * OpenSSH takes ChaCha20 from OpenSSL (EVP_chacha20 in cipher-chachapoly-libcrypto.c) and not its Poly1305, which is
 * in assembly: so what `openssl speed -evp chacha20-poly1305` gives is not what ssh does.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LIMB 0x3ffffffu
#define PACKET 32768 /* SSH's largest piece of data in a packet, as scp sends it */

static uint32_t word(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Split 16 bytes into limbs. */
static void split(uint32_t limbs[5], const unsigned char *from)
{
    uint64_t low = word(from) | (uint64_t)word(from + 4) << 32, high = word(from + 8) | (uint64_t)word(from + 12) << 32;
    limbs[0] = low & LIMB;
    limbs[1] = low >> 26 & LIMB;
    limbs[2] = (low >> 52 | high << 12) & LIMB;
    limbs[3] = high >> 14 & LIMB;
    limbs[4] = high >> 40;
}

/* Take in a block: h = (h + block) * r modulo 2^130 - 5, its carries passed on once. */
static void block(uint32_t h[5], const uint32_t r[5], const uint32_t r5[5], const unsigned char *from, uint32_t top)
{
    uint32_t m[5];
    split(m, from);
    uint64_t h0 = h[0] + m[0], h1 = h[1] + m[1], h2 = h[2] + m[2], h3 = h[3] + m[3], h4 = h[4] + m[4] + top;
    uint64_t p0 = h0 * r[0] + h1 * r5[4] + h2 * r5[3] + h3 * r5[2] + h4 * r5[1];
    uint64_t p1 = h0 * r[1] + h1 * r[0] + h2 * r5[4] + h3 * r5[3] + h4 * r5[2];
    uint64_t p2 = h0 * r[2] + h1 * r[1] + h2 * r[0] + h3 * r5[4] + h4 * r5[3];
    uint64_t p3 = h0 * r[3] + h1 * r[2] + h2 * r[1] + h3 * r[0] + h4 * r5[4];
    uint64_t p4 = h0 * r[4] + h1 * r[3] + h2 * r[2] + h3 * r[1] + h4 * r[0];
    p1 += p0 >> 26;
    p2 += p1 >> 26;
    p3 += p2 >> 26;
    p4 += p3 >> 26;
    h[0] = (p0 & LIMB) + (uint32_t)(p4 >> 26) * 5;
    h[1] = p1 & LIMB;
    h[2] = p2 & LIMB;
    h[3] = p3 & LIMB;
    h[4] = p4 & LIMB;
}

/* Pass on the carries, and take the modulus away where the value is not below it. */
static void reduce(uint32_t h[5])
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) {
            h[i + 1] += h[i] >> 26;
            h[i] &= LIMB;
        }
        h[0] += (h[4] >> 26) * 5;
        h[4] &= LIMB;
    }
    uint32_t less[5], carry = 5;
    for (int i = 0; i < 5; i++) {
        less[i] = h[i] + carry;
        carry = less[i] >> 26;
        less[i] &= LIMB;
    }
    if (carry)
        memcpy(h, less, sizeof less);
}

static void poly1305(unsigned char tag[16], const unsigned char *data, size_t size, const unsigned char key[32])
{
    unsigned char clamped[16], rest[16] = {0};
    uint32_t h[5] = {0}, r[5], r5[5];
    memcpy(clamped, key, 16);
    for (int i = 3; i < 16; i += 4)
        clamped[i] &= 15;
    for (int i = 4; i < 16; i += 4)
        clamped[i] &= 252;
    split(r, clamped);
    for (int i = 0; i < 5; i++)
        r5[i] = r[i] * 5;
    for (; size >= 16; data += 16, size -= 16)
        block(h, r, r5, data, 1u << 24);
    if (size) {
        memcpy(rest, data, size);
        rest[size] = 1;
        block(h, r, r5, rest, 0);
    }
    reduce(h);
    uint32_t words[4] = {h[0] | h[1] << 26, h[1] >> 6 | h[2] << 20, h[2] >> 12 | h[3] << 14, h[3] >> 18 | h[4] << 8};
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (uint64_t)words[i] + word(key + 16 + 4 * i);
        for (int j = 0; j < 4; j++)
            tag[4 * i + j] = (unsigned char)(sum >> (8 * j));
        sum >>= 32;
    }
}

/* The example of RFC 8439 2.5.2. */
static int is_right(void)
{
    static const unsigned char key[33] =
        "\x85\xd6\xbe\x78\x57\x55\x6d\x33\x7f\x44\x52\xfe\x42\xd5\x06\xa8"
        "\x01\x03\x80\x8a\xfb\x0d\xb2\xfd\x4a\xbf\xf6\xaf\x41\x49\xf5\x1b";
    static const unsigned char expected[17] = "\xa8\x06\x1d\xc1\x30\x51\x36\xc6\xc2\x2b\x8b\xaf\x0c\x01\x27\xa9";
    static const char text[] = "Cryptographic Forum Research Group";
    unsigned char tag[16];
    poly1305(tag, (const unsigned char *)text, sizeof text - 1, key);
    return memcmp(tag, expected, 16) == 0;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(void)
{
    static unsigned char data[PACKET];
    unsigned char key[32] = {1, 2, 3}, tag[16];
    if (!is_right())
        return 1;
    double began = seconds(), took = 0, count = 0;
    while (took < 1) {
        for (int i = 0; i < 1000; i++) {
            poly1305(tag, data, PACKET, key);
            /* The next one needs this one's tag, so none can be left out. */
            memcpy(key + 16, tag, 16);
        }
        count += 1000.0 * PACKET;
        took = seconds() - began;
    }
    printf("%.0f\n", count / took);
    return 0;
}
