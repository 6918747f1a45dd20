"""The precompiles of BLS12-381 (EIP-2537), and of KZG proofs on it (EIP-4844).

Coordinates are 48 bytes padded to 64. The library is imported at first use."""

from collections.abc import Callable
from typing import Any

from rollup_node.tools.devnet.evm.call_frame import ExceptionalHalt

_MODULUS = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
_G1, _G2, _SCALAR = 128, 256, 32
_G1_TERM, _G2_TERM, _PAIR = _G1 + _SCALAR, _G2 + _SCALAR, _G1 + _G2

_G1_DISCOUNTS = (
    "1000 949 848 797 764 750 738 728 719 712 705 698 692 687 682 677 673 669 665 661 658 654 651 648 645 642 640 637 "
    "635 632 630 627 625 623 621 619 617 615 613 611 609 608 606 604 603 601 599 598 596 595 593 592 591 589 588 586 "
    "585 584 582 581 580 579 577 576 575 574 573 572 570 569 568 567 566 565 564 563 562 561 560 559 558 557 556 555 "
    "554 553 552 551 550 549 548 547 547 546 545 544 543 542 541 540 540 539 538 537 536 536 535 534 533 532 532 531 "
    "530 529 528 528 527 526 525 525 524 523 522 522 521 520 520 519"
)
_G2_DISCOUNTS = (
    "1000 1000 923 884 855 832 812 796 782 770 759 749 740 732 724 717 711 704 699 693 688 683 679 674 670 666 663 659 "
    "655 652 649 646 643 640 637 634 632 629 627 624 622 620 618 615 613 611 609 607 606 604 602 600 598 597 595 593 "
    "592 590 589 587 586 584 583 582 580 579 578 576 575 574 573 571 570 569 568 567 566 565 563 562 561 560 559 558 "
    "557 556 555 554 553 552 552 551 550 549 548 547 546 545 545 544 543 542 541 541 540 539 538 537 537 536 535 535 "
    "534 533 532 532 531 530 530 529 528 528 527 526 526 525 524 524"
)


def _sum_gas(term: int, gas: int, table: str) -> Callable[[bytes], int]:
    """Return the gas function of a multi-scalar multiplication, with a discount by the number of terms."""
    discounts = tuple(int(number) for number in table.split())

    def cost(data: bytes) -> int:
        terms = len(data) // term
        return terms * gas * discounts[min(terms, len(discounts)) - 1] // 1000 if terms else 0

    return cost


g1_sum_gas = _sum_gas(_G1_TERM, 12_000, _G1_DISCOUNTS)
g2_sum_gas = _sum_gas(_G2_TERM, 22_500, _G2_DISCOUNTS)


def pairing_gas(data: bytes) -> int:
    """Gas by number of pairs."""
    return 37_700 + 32_600 * (len(data) // _PAIR)


def g1_add(data: bytes) -> bytes:
    """Return the sum of two G1 points, without a subgroup check."""
    _require(len(data) == 2 * _G1)
    return _padded(_g1(data[:_G1], False) + _g1(data[_G1:], False))


def g2_add(data: bytes) -> bytes:
    """Return the sum of two G2 points, without a subgroup check."""
    _require(len(data) == 2 * _G2)
    return _padded(_g2(data[:_G2], False) + _g2(data[_G2:], False))


def g1_sum(data: bytes) -> bytes:
    """Return a multi-scalar multiplication of points in the G1 subgroup."""
    from py_arkworks_bls12381 import G1Point

    points, scalars = _terms(data, _G1, _g1)
    return _padded(G1Point.multiexp_unchecked(points, scalars))


def g2_sum(data: bytes) -> bytes:
    """Return a multi-scalar multiplication of points in the G2 subgroup."""
    from py_arkworks_bls12381 import G2Point

    points, scalars = _terms(data, _G2, _g2)
    return _padded(G2Point.multiexp_unchecked(points, scalars))


def pairing(data: bytes) -> bytes:
    """Whether the product of the pairings is one."""
    from py_arkworks_bls12381 import GT

    _require(len(data) > 0 and len(data) % _PAIR == 0)
    ones = [_g1(data[at : at + _G1]) for at in range(0, len(data), _PAIR)]
    twos = [_g2(data[at + _G1 : at + _PAIR]) for at in range(0, len(data), _PAIR)]
    return int(GT.pairing_check(ones, twos)).to_bytes(32, "big")


def map_to_g1(data: bytes) -> bytes:
    """Map a field element to a G1 point."""
    from py_arkworks_bls12381 import G1Point

    _require(len(data) == 64)
    return _padded(G1Point.map_from_fp_be(_unpadded(data)))


def map_to_g2(data: bytes) -> bytes:
    """Map an element of the quadratic field to a G2 point."""
    from py_arkworks_bls12381 import G2Point

    _require(len(data) == 128)
    return _padded(G2Point.map_from_fp2_be(_unpadded(data)))


def _require(holds: bool) -> None:
    if not holds:
        raise ExceptionalHalt("invalid bls12-381 input")


def _terms(data: bytes, size: int, point: Callable[[bytes], Any]) -> tuple[list[Any], list[Any]]:
    from py_arkworks_bls12381 import Scalar

    term = size + _SCALAR
    _require(len(data) > 0 and len(data) % term == 0)
    starts = range(0, len(data), term)
    points = [point(data[at : at + size]) for at in starts]
    return points, [Scalar.from_be_bytes_mod_order(data[at + size : at + term]) for at in starts]


def _unpadded(data: bytes) -> bytes:
    """Return the coordinates without padding. Raises ExceptionalHalt for one outside of the field."""
    parts = [data[at : at + 64] for at in range(0, len(data), 64)]
    _require(all(int.from_bytes(part, "big") < _MODULUS for part in parts))
    return b"".join(part[16:] for part in parts)


def _padded(point: Any) -> bytes:
    coordinates = point.to_xy_bytes_be()
    return b"".join(bytes(16) + coordinates[at : at + 48] for at in range(0, len(coordinates), 48))


def _g1(data: bytes, is_checked: bool = True) -> Any:
    from py_arkworks_bls12381 import G1Point

    return _decoded(G1Point, data, is_checked)


def _g2(data: bytes, is_checked: bool = True) -> Any:
    from py_arkworks_bls12381 import G2Point

    return _decoded(G2Point, data, is_checked)


def _decoded(kind: Any, data: bytes, is_checked: bool) -> Any:
    """Return a point on the curve, of the subgroup if `is_checked`; all zeros are the point at infinity.

    Raises ExceptionalHalt."""
    coordinates = _unpadded(data)
    if not any(coordinates):
        return kind.identity()
    try:
        point = kind.from_xy_bytes_unchecked_be(coordinates)
    except ValueError as error:
        raise ExceptionalHalt(f"invalid bls12-381 point: {error}") from None
    _require(not is_checked or point.is_in_subgroup())
    return point


_INPUT = 192


def evaluate_point(data: bytes) -> bytes:
    """Verify that a committed polynomial has a value at a point. Raises ExceptionalHalt for an invalid proof."""
    # Imported at first use, which few networks have.
    from rollup_node.stages.blobs.kzg import ELEMENTS, FIELD_MODULUS, versioned_hash
    from rollup_node.tools.batcher.kzg_proofs import verify_opening

    if len(data) != _INPUT:
        raise ExceptionalHalt("invalid point evaluation input length")
    point, value = (int.from_bytes(data[at : at + 32], "big") for at in (32, 64))
    commitment, proof = data[96:144], data[144:]
    if data[:32] != versioned_hash(commitment):
        raise ExceptionalHalt("mismatched versioned hash")
    if max(point, value) >= FIELD_MODULUS:
        raise ExceptionalHalt("invalid point evaluation input: not a field element")
    if not verify_opening(commitment, point, value, proof):
        raise ExceptionalHalt("invalid point evaluation proof")
    return ELEMENTS.to_bytes(32, "big") + FIELD_MODULUS.to_bytes(32, "big")
