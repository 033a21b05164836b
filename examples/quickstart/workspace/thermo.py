"""Convert temperatures."""


def fahrenheit(celsius: float) -> float:
    """Turn degrees Celsius into degrees Fahrenheit.

    >>> fahrenheit(100)
    212.0
    """
    return celsius * 9 / 5 + 32
