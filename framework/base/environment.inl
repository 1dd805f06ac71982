// framework/base/environment.inl - every environment variable that the project reads
//
// BT_ENVIRONMENT(enumerator, name, allowed values, meaning, reader). `ci/lint.sh environment`
// rejects any other way to read a variable, and a BT_ variable in a script without a row here.
// Kernels read no variables: those that select kernels are read once, when the device is opened.
BT_ENVIRONMENT(ROOT, "BT_ROOT", "a folder", "where suites/ and data/ of the product are",
               "bt-bench; set by ./bt-bench")
BT_ENVIRONMENT(GEMM, "BT_GEMM", "auto, own, cublaslt, cublaslt-best, sm80",
               "which matrix products the CUDA backend may choose", "libbt_cuda, when opened")
BT_ENVIRONMENT(GEMM_TUNE, "BT_GEMM_TUNE", "0, 1",
               "1: measure the plans of a matrix product and keep the fastest", "libblutrain")
BT_ENVIRONMENT(CACHE_DIR, "BT_CACHE_DIR", "a folder",
               "where measured plans are kept; default $XDG_CACHE_HOME/blutrain", "libblutrain")
BT_ENVIRONMENT(BENCH, "BT_BENCH", "a program", "the built bt-bench to use instead of ./bt-bench",
               "ci/gpu-gate.sh")
BT_ENVIRONMENT(CMAKE_ARGS, "BT_CMAKE_ARGS", "options", "added to every configuration", "ci/test.sh")
BT_ENVIRONMENT(FUZZ_SECONDS, "BT_FUZZ_SECONDS", "a number", "time for all fuzz targets together",
               "ci/test.sh")
BT_ENVIRONMENT(FRESH_NAMESPACE, "BT_FRESH_NAMESPACE", "set by the script itself",
               "tells the script that it runs in its own mount namespace", "ci/fresh.sh")
BT_ENVIRONMENT(CUDA_VISIBLE_DEVICES, "CUDA_VISIBLE_DEVICES", "see the CUDA documentation",
               "which GPUs are used", "bt-bench, CUDA")
BT_ENVIRONMENT(OPENBLAS_CORETYPE, "OPENBLAS_CORETYPE", "see the OpenBLAS documentation",
               "which kernels OpenBLAS uses; set for workers where OpenBLAS chooses badly",
               "bt-bench, OpenBLAS")
BT_ENVIRONMENT(OMP_NUM_THREADS, "OMP_NUM_THREADS", "a number", "threads of CPU kernels",
               "OpenMP runtime")
BT_ENVIRONMENT(OMP_THREAD_LIMIT, "OMP_THREAD_LIMIT", "a number",
               "most threads of CPU kernels; OpenBLAS is told the team size that results",
               "OpenMP runtime")
BT_ENVIRONMENT(OMP_DYNAMIC, "OMP_DYNAMIC", "false",
               "teams of varying size; corrected to false with a note", "OpenMP runtime")
BT_ENVIRONMENT(NCCL_NVLS_ENABLE, "NCCL_NVLS_ENABLE", "0",
               "NVLink multicast; the launcher sets 0, and ranks on GPUs refuse anything else",
               "bt-bench, NCCL")
BT_ENVIRONMENT(
    CUDA_MODULE_LOADING, "CUDA_MODULE_LOADING", "EAGER",
    "when kernels are loaded; ranks on GPUs set EAGER where it is not set; with LAZY they use "
    "NCCL",
    "bt-bench, CUDA")
BT_ENVIRONMENT(RANK, "RANK", "a number", "which rank of train.mesh this process is", "torchrun")
BT_ENVIRONMENT(WORLD_SIZE, "WORLD_SIZE", "a number", "how many ranks there are", "torchrun")
BT_ENVIRONMENT(LOCAL_RANK, "LOCAL_RANK", "a number", "which rank of its host", "torchrun")
BT_ENVIRONMENT(LOCAL_WORLD_SIZE, "LOCAL_WORLD_SIZE", "a number", "ranks of this host", "torchrun")
BT_ENVIRONMENT(TORCHELASTIC_RUN_ID, "TORCHELASTIC_RUN_ID", "a name", "names the start", "torchrun")
BT_ENVIRONMENT(MASTER_ADDR, "MASTER_ADDR", "a host", "where rank 0 listens", "bt-bench, torchrun")
BT_ENVIRONMENT(MASTER_PORT, "MASTER_PORT", "1 to 65534",
               "its port; under torchrun, which uses it itself, the next one", "bt-bench, torchrun")
BT_ENVIRONMENT(SLURM_PROCID, "SLURM_PROCID", "a number", "which rank this process is", "srun")
BT_ENVIRONMENT(SLURM_STEP_NUM_TASKS, "SLURM_STEP_NUM_TASKS", "a number", "how many ranks", "srun")
BT_ENVIRONMENT(SLURM_LOCALID, "SLURM_LOCALID", "a number", "which rank of its host", "srun")
BT_ENVIRONMENT(SLURM_JOB_ID, "SLURM_JOB_ID", "a number", "names the start", "srun")
BT_ENVIRONMENT(SLURM_STEP_ID, "SLURM_STEP_ID", "a number", "names the start in its job", "srun")
BT_ENVIRONMENT(SLURM_STEP_NODELIST, "SLURM_STEP_NODELIST", "hosts", "the first has rank 0", "srun")
BT_ENVIRONMENT(OMPI_COMM_WORLD_RANK, "OMPI_COMM_WORLD_RANK", "a number",
               "which rank this process is", "mpirun of Open MPI")
BT_ENVIRONMENT(OMPI_COMM_WORLD_SIZE, "OMPI_COMM_WORLD_SIZE", "a number", "how many ranks",
               "mpirun of Open MPI")
BT_ENVIRONMENT(OMPI_COMM_WORLD_LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK", "a number",
               "which rank of its host", "mpirun of Open MPI")
BT_ENVIRONMENT(OMPI_COMM_WORLD_LOCAL_SIZE, "OMPI_COMM_WORLD_LOCAL_SIZE", "a number",
               "ranks of this host", "mpirun of Open MPI")
BT_ENVIRONMENT(PMIX_NAMESPACE, "PMIX_NAMESPACE", "a name", "names the start", "mpirun of Open MPI")
BT_ENVIRONMENT(NCCL_SOCKET_IFNAME, "NCCL_SOCKET_IFNAME", "see the NCCL documentation",
               "which network interfaces ranks use; checked before they meet", "bt-bench, NCCL")
BT_ENVIRONMENT(HOME, "HOME", "a folder", "~/.cache when XDG_CACHE_HOME is not set", "libblutrain")
BT_ENVIRONMENT(XDG_CACHE_HOME, "XDG_CACHE_HOME", "a folder", "where caches are kept",
               "libblutrain, ci/lint.sh")
BT_ENVIRONMENT(TMPDIR, "TMPDIR", "a folder", "where device locks are; default /tmp", "bt-bench")
BT_ENVIRONMENT(PATH, "PATH", "folders", "where programs are looked for", "bt-bench doctor")
BT_ENVIRONMENT(NO_COLOR, "NO_COLOR", "anything", "no colour and no bars on a terminal", "bt-bench")
BT_ENVIRONMENT(TERM, "TERM", "a terminal type", "dumb: no line is drawn over", "bt-bench")
