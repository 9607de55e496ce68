def poll() -> None: ...

class Wire:
    is_cuda_aware: bool
    all_have_left: bool
    shortest: int
    longest: int
    longest_staged: int
    @property
    def one_thread(self) -> bool: ...
    def has_lost(self, peer: int) -> bool: ...
