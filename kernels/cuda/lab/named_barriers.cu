// kernels/cuda/lab/named_barriers.cu - a correct program that racecheck calls a race
//
// Groups of warps pass a named barrier of their own once a row, then the block exchanges values in
// shared memory between two __syncthreads(). When all groups have the same number of rows racecheck
// (compute-sanitizer 2025.3.1) reports nothing; when one has a row more, it reports the exchange.
// So its findings in LayerNorm backward, which has this shape, say nothing. The two results below
// were seen with the same kernel before it was laid out like this.
//   nvcc -arch=sm_90 -o named_barriers named_barriers.cu
//   compute-sanitizer --tool racecheck ./named_barriers 16    0 hazards
//   compute-sanitizer --tool racecheck ./named_barriers 5     1 hazard
#include <cstdio>
#include <cstdlib>

constexpr int SIZE = 96, GROUPS = 8, WARPS = SIZE / 32;

static __global__ void __launch_bounds__(SIZE *GROUPS, 1) exchange(int *out, int rows)
{
    __shared__ int values[SIZE * GROUPS];
    __shared__ int parts[2][GROUPS][WARPS];
    const int thread = (int)threadIdx.x;
    const int group = thread / SIZE;
    int turn = 0, sum = 0;
    for (int row = group; row < rows; row += GROUPS, turn ^= 1) {
        if (thread % 32 == 0) {
            parts[turn][group][thread % SIZE / 32] = thread + row;
        }
        asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(SIZE) : "memory");
        for (int warp = 0; warp < WARPS; ++warp) {
            sum += parts[turn][group][warp];
        }
    }
    __syncthreads();
    values[thread] = sum;
    __syncthreads();
    out[thread] = values[SIZE * GROUPS - 1 - thread];
}

int main(int argc, char **argv)
{
    int *out = nullptr;
    if (argc != 2 || cudaMalloc(&out, SIZE * GROUPS * sizeof *out) != cudaSuccess) {
        return 2;
    }
    exchange<<<1, SIZE * GROUPS>>>(out, atoi(argv[1]));
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
