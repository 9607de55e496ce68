from collalgo._kernels.rows import Rows

class Posts(Rows):
    offers_end: int
