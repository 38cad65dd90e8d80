"""What commands print and draw: tables, trees and pictures."""
