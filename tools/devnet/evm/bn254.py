"""The alt_bn128 precompiles (EIP-196, EIP-197, gas of EIP-1108). The library is imported at first use."""

import sys
from typing import TYPE_CHECKING, Any

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

if TYPE_CHECKING:
    from types import ModuleType

_PAIR = 192


def add(data: bytes) -> bytes:
    """Return the sum of two points."""
    curve, data = _curve(), data[:128].ljust(128, b"\0")
    return _encoded(curve, curve.add(_point(curve, data[:64]), _point(curve, data[64:])))


def multiply(data: bytes) -> bytes:
    """Return the product of a point and a scalar."""
    curve, data = _curve(), data[:96].ljust(96, b"\0")
    return _encoded(curve, curve.multiply(_point(curve, data[:64]), int.from_bytes(data[64:], "big")))


def pairing_gas(data: bytes) -> int:
    """Gas by number of pairs (EIP-1108)."""
    return 45_000 + 34_000 * (len(data) // _PAIR)


def pairing(data: bytes) -> bytes:
    """Whether the product of the pairings is one. Raises ExceptionalHalt for invalid points."""
    if len(data) % _PAIR:
        raise ExceptionalHalt("bn256 pairing input is not made of pairs")
    curve = _curve()
    product = curve.FQ12.one()
    for at in range(0, len(data), _PAIR):
        point = _point(curve, data[at : at + 64])
        twisted = _twisted_point(curve, data[at + 64 : at + _PAIR])
        if not curve.is_inf(point) and not curve.is_inf(twisted):
            product = product * curve.pairing(twisted, point, final_exponentiate=False)
    is_one = curve.final_exponentiate(product) == curve.FQ12.one()
    return int(is_one).to_bytes(32, "big")


def _curve() -> "ModuleType":
    """Return the library, without the recursion limit that it sets: deeply nested JSON would overflow the C stack."""
    limit = sys.getrecursionlimit()
    from py_ecc import optimized_bn128

    sys.setrecursionlimit(limit)
    return optimized_bn128


def _numbers(curve: "ModuleType", data: bytes) -> list[int]:
    numbers = [int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data), 32)]
    if any(number >= curve.field_modulus for number in numbers):
        raise ExceptionalHalt("bn256 coordinate not in the field")
    return numbers


def _point(curve: "ModuleType", data: bytes) -> Any:
    x, y = _numbers(curve, data)
    if x == y == 0:
        return curve.Z1
    point = (curve.FQ(x), curve.FQ(y), curve.FQ.one())
    if not curve.is_on_curve(point, curve.b):
        raise ExceptionalHalt("bn256 point not on the curve")
    return point


def _twisted_point(curve: "ModuleType", data: bytes) -> Any:
    x_imaginary, x_real, y_imaginary, y_real = numbers = _numbers(curve, data)
    if not any(numbers):
        return curve.Z2
    point = (curve.FQ2([x_real, x_imaginary]), curve.FQ2([y_real, y_imaginary]), curve.FQ2.one())
    if not curve.is_on_curve(point, curve.b2) or not curve.is_inf(curve.multiply(point, curve.curve_order)):
        raise ExceptionalHalt("bn256 point not in the twisted group")
    return point


def _encoded(curve: "ModuleType", point: Any) -> bytes:
    if curve.is_inf(point):
        return bytes(64)
    x, y = curve.normalize(point)
    return int(x.n).to_bytes(32, "big") + int(y.n).to_bytes(32, "big")
